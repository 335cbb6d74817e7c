// What outlives an iteration: weights, optimiser states, gradients, and results that the next one frees.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "policy/decide.h"
#include "policy/timeline.h"
#include "tests/support/outliving.h"
#include "tests/support/random_profile.h"

namespace pooch::policy {
namespace {

constexpr std::uint64_t mib = 1 << 20;

// Six ops of 100 us. Links carry 1 MiB in 10 us, without latency.
Profile six_ops() {
  Profile profile;
  profile.link = {{false, mib, 10}, {false, 10 * mib, 100}, {true, mib, 10}, {true, 10 * mib, 100}};
  PhaseProfile& phase = profile.phases.emplace_back();
  phase.id = "six";
  phase.turn = 3;
  for (int i = 0; i < 6; ++i) {
    ProfileOp op;
    op.kind = i < 3 ? OpKind::conv_forward : OpKind::bare_launch;
    op.us = 100;
    phase.ops.push_back(op);
  }
  return profile;
}
void add(Profile& profile, ProfileBuffer buffer, std::int32_t producer, std::vector<std::int32_t> readers,
         Role role) {
  PhaseProfile& phase = profile.phases[0];
  const auto number = static_cast<std::uint32_t>(phase.versions.size());
  if (producer != outside) phase.ops[producer].writes.push_back(number);
  for (const std::int32_t p : readers) phase.ops[p].reads.push_back(number);
  phase.versions.push_back({static_cast<std::uint32_t>(phase.buffers.size()), 0, buffer.bytes, producer,
                            std::move(readers), role});
  phase.buffers.push_back(std::move(buffer));
}
// Read by some ops, and written by the last of them.
void add_state(Profile& profile, std::uint64_t bytes, const std::vector<std::int32_t>& ops) {
  add(profile, {bytes, true, outside, outside, {}}, outside, ops, Role::parameter);
  PhaseProfile& phase = profile.phases[0];
  const auto number = static_cast<std::uint32_t>(phase.versions.size());
  phase.ops[ops.back()].writes.push_back(number);
  phase.versions.push_back(
      {static_cast<std::uint32_t>(phase.buffers.size()) - 1, 0, bytes, ops.back(), {}, Role::parameter});
}
Problem problem_of(const Profile& profile, Movers movers = Movers::everything,
                   std::uint64_t memory = ~std::uint64_t{0}) {
  Result<Problem> problem = make_problem(profile, profile.phases[0], {}, movers, memory);
  EXPECT_TRUE(problem) << (problem ? "" : problem.error().message);
  return *problem;
}
Outcome run(const Problem& problem, Class of, std::uint64_t cap, Trace* trace = nullptr) {
  Rules rules;
  rules.cap = cap;
  return Simulator(problem, rules).run(all(problem, of), trace);
}

TEST(Outliving, AnOptimiserStatePausesAcrossTheIterationsEnd) {
  Profile profile = six_ops();
  add_state(profile, 10 * mib, {4});
  const Problem problem = problem_of(profile);
  ASSERT_EQ(problem.maps.size(), 1u);
  const MovableMap& map = problem.maps[0];
  EXPECT_TRUE(map.across);
  EXPECT_FALSE(map.clean);
  EXPECT_FALSE(map.droppable);
  EXPECT_EQ(map.name, "state 0");
  EXPECT_EQ(problem.segments[map.returns].first, 4);
  EXPECT_EQ(problem.segments[map.leaves].last, 4);
  EXPECT_TRUE(problem_of(profile, Movers::feature_maps).maps.empty());
}

TEST(Outliving, AWeightPausesWhereItIsUnusedForLongest) {
  Profile profile = six_ops();
  add_state(profile, 10 * mib, {0, 4, 5});
  const MovableMap inside = problem_of(profile).maps.at(0);
  EXPECT_FALSE(inside.across);
  EXPECT_EQ(problem_of(profile).segments[inside.leaves].last, 0);
  Profile late = six_ops();
  add_state(late, 10 * mib, {2, 3});
  EXPECT_TRUE(problem_of(late).maps.at(0).across);
}

// Ops 0, 2 and 5 use it, and op 1 needs the memory.
TEST(Outliving, AWeightPausesWhereMemoryIsShort) {
  Profile profile = six_ops();
  add_state(profile, 10 * mib, {0, 2, 5});
  add(profile, {20 * mib, true, 1, 2, {}}, 1, {}, Role::activation);
  const auto leaves = [](const Problem& problem) { return problem.segments[problem.maps.at(0).leaves].last; };
  const Problem ample = problem_of(profile, Movers::everything, 30 * mib),
                tight = problem_of(profile, Movers::everything, 20 * mib);
  EXPECT_EQ(leaves(ample), 2);
  EXPECT_EQ(leaves(tight), 0);
  EXPECT_EQ(run(ample, Class::swap, 0).peak, 30 * mib);
  EXPECT_EQ(run(tight, Class::swap, 0).peak, 20 * mib);
}

// Enough of them, and no more.
TEST(Outliving, OnlySoManyBuffersPauseElsewhereAsMustBe) {
  Profile profile = six_ops();
  for (int weight = 0; weight < 4; ++weight) add_state(profile, 10 * mib, {0, 2, 5});
  add(profile, {20 * mib, true, 1, 2, {}}, 1, {}, Role::activation);
  const Problem problem = problem_of(profile, Movers::everything, 40 * mib);
  EXPECT_EQ(std::count_if(problem.maps.begin(), problem.maps.end(),
                          [&](const MovableMap& map) { return problem.segments[map.leaves].last == 0; }),
            2);
  EXPECT_EQ(run(problem, Class::swap, 0).peak, 40 * mib);
}

TEST(Outliving, AGradientOfThisIterationMovesWhereMemoryIsShort) {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 1, 6, {}}, 1, {5}, Role::gradient);
  add(profile, {20 * mib, true, 3, 4, {}}, 3, {}, Role::activation);
  add_state(profile, 10 * mib, {5});
  EXPECT_EQ(problem_of(profile).maps.size(), 1u) << "the state";
  const Problem problem = problem_of(profile, Movers::everything, 20 * mib);
  ASSERT_EQ(problem.maps.size(), 2u);
  const MovableMap& gradient = problem.maps[0];
  EXPECT_EQ(problem.segments[gradient.leaves].last, 1);
  EXPECT_EQ(problem.segments[gradient.returns].first, 5);
  EXPECT_FALSE(gradient.droppable);
  EXPECT_EQ(run(problem, Class::swap, 0).peak, 20 * mib);
}

TEST(Outliving, WhatIsATrifleBesideTheFeatureMapsStays) {
  Profile profile = six_ops();
  add_state(profile, 4 * mib, {4});
  add(profile, {100 * mib, true, 0, 6, {}}, 0, {5}, Role::feature_map);
  EXPECT_EQ(problem_of(profile).maps.size(), 1u);
}

TEST(Outliving, WhatTheProgramCopiesToStays) {
  Profile profile = six_ops();
  add_state(profile, 10 * mib, {4});
  profile.phases[0].copies.push_back({2, true, 10 * mib, 1, 100, 0, 0});
  EXPECT_TRUE(problem_of(profile).maps.empty());
}

// 10 MiB take 100 us each way: in beside the ops before, out beside those of the next iteration.
// A replay of one of its ops needs it, and no plan says so.
TEST(Outliving, AWorkspaceStays) {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 0, 5, {}}, 0, {1, 4}, Role::feature_map);
  PhaseProfile& phase = profile.phases[0];
  for (const int op : {0, 1})
    phase.ops[op].scratch.push_back(static_cast<std::uint32_t>(phase.buffers.size()));
  phase.buffers.push_back({10 * mib, true, outside, outside, {}});
  for (const std::uint64_t memory : {~std::uint64_t{0}, 12 * mib}) {
    const Problem problem = problem_of(profile, Movers::everything, memory);
    ASSERT_EQ(problem.maps.size(), 1u);
    EXPECT_EQ(problem.maps[0].buffer, 0u);
  }
}

TEST(Outliving, AStateIsThereOnlyForItsStep) {
  Profile profile = six_ops();
  add_state(profile, 10 * mib, {4});
  add(profile, {10 * mib, true, 0, 3, {}}, 0, {2}, Role::activation);
  const Problem problem = problem_of(profile);
  Trace trace;
  const Outcome kept = run(problem, Class::keep, 20 * mib);
  EXPECT_EQ(kept.peak, 20 * mib);
  const Outcome moved = run(problem, Class::swap, 10 * mib, &trace);
  EXPECT_EQ(moved.peak, 10 * mib);
  EXPECT_NEAR(moved.us, 600, 1e-6) << "the copy out ends with the last op, and the one in fits between";
  EXPECT_EQ(std::count_if(trace.spans.begin(), trace.spans.end(),
                          [](const Span& span) { return span.engine != Engine::compute; }),
            2);
}

TEST(Outliving, WhatIsStillOnItsWayOutDelaysTheNextIteration) {
  Profile profile = six_ops();
  add_state(profile, 20 * mib, {5});
  add(profile, {20 * mib, true, 0, 3, {}}, 0, {2}, Role::activation);
  const Problem problem = problem_of(profile);
  EXPECT_NEAR(run(problem, Class::swap, 40 * mib).us, 600, 1e-6) << "there is room for both";
  Trace trace;
  const Outcome outcome = run(problem, Class::swap, 20 * mib, &trace);
  EXPECT_NEAR(outcome.us, 800, 1e-6) << "the first op needs the memory, 200 us after the last";
  ASSERT_FALSE(trace.stalls.empty());
  EXPECT_EQ(trace.stalls[0].cause, Stall::Cause::memory);
  EXPECT_EQ(trace.stalls[0].segment, 0);
}

TEST(Outliving, WhatIsNeverWrittenLeavesWithoutACopy) {
  Profile profile = six_ops();
  add(profile, {20 * mib, true, outside, outside, {}}, outside, {5}, Role::parameter);
  add(profile, {20 * mib, true, 0, 3, {}}, 0, {2}, Role::activation);
  const Problem problem = problem_of(profile);
  EXPECT_TRUE(problem.maps.at(0).clean);
  const Outcome outcome = run(problem, Class::swap, 20 * mib);
  EXPECT_NEAR(outcome.us, 600, 1e-6);
  EXPECT_EQ(outcome.out_busy_us, 0);
}

// A result of op 1 that nobody reads after op 2; the next iteration frees it before its op 2.
Profile with_result() {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 1, outside, {}}, 1, {2}, Role::activation);
  profile.phases[0].buffers.push_back({10 * mib, true, outside, 2, {}});
  return profile;
}

TEST(Outliving, AResultThatTheNextIterationFreesLeavesForGood) {
  const Problem problem = problem_of(with_result());
  ASSERT_EQ(problem.maps.size(), 1u);
  EXPECT_TRUE(problem.maps[0].for_good);
  EXPECT_EQ(problem.segments[problem.maps[0].leaves].last, 2);
  EXPECT_EQ(problem.segments[problem.maps[0].lingers].last, 1);
  const Outcome kept = run(problem, Class::keep, 100 * mib), moved = run(problem, Class::swap, 10 * mib);
  EXPECT_EQ(kept.peak, 20 * mib) << "two are there at op 1";
  EXPECT_EQ(moved.peak, 10 * mib);
  EXPECT_EQ(moved.in_busy_us, 0);
  EXPECT_NEAR(moved.us, 600, 1e-6);
}

// A gradient of op 1 that the step, op 4, reads. The next iteration frees it before its op 1.
Profile with_gradient() {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 1, outside, {}}, 1, {4}, Role::gradient);
  profile.phases[0].buffers.push_back({10 * mib, true, outside, 1, {}});
  return profile;
}

TEST(Outliving, AGradientThatIsOnlyReadOnceItIsBackLeavesAgain) {
  const Problem problem = problem_of(with_gradient());
  ASSERT_EQ(problem.maps.size(), 1u);
  const MovableMap& map = problem.maps[0];
  EXPECT_TRUE(map.leaves_again());
  EXPECT_FALSE(map.ends_away());
  EXPECT_EQ(problem.segments[map.released].last, 4);
  Rules rules;
  rules.cap = 100 * mib;
  Simulator simulator(problem, rules);
  (void)simulator.run(all(problem, Class::keep));
  EXPECT_EQ(simulator.schedule().live.front(), 10 * mib) << "the one before is there";
  EXPECT_EQ(simulator.schedule().live.back(), 10 * mib);
  const Outcome moved = simulator.run(all(problem, Class::swap));
  EXPECT_EQ(simulator.schedule().live.front(), 0u);
  EXPECT_EQ(simulator.schedule().live.back(), 0u);
  EXPECT_NEAR(moved.out_busy_us, 100, 1e-6) << "it is copied once";
  const Plan plan = write_plan(problem, {all(problem, Class::swap), rules}, "hybrid");
  EXPECT_TRUE(plan.maps.at(0).leaves_again);
}

// A gradient that the iteration before accumulated. The step reads it, op 4, and frees it.
Profile with_accumulated() {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, outside, 5, {}}, outside, {4}, Role::gradient);
  add(profile, {10 * mib, true, 0, 3, {}}, 0, {2}, Role::activation);
  return profile;
}

TEST(Outliving, WhatTheIterationBeforeAccumulatedArrivesForTheStep) {
  const Problem problem = problem_of(with_accumulated());
  ASSERT_EQ(problem.maps.size(), 1u);
  const MovableMap& map = problem.maps[0];
  EXPECT_TRUE(map.arrives);
  EXPECT_TRUE(map.across);
  EXPECT_EQ(problem.segments[map.returns].first, 4);
  EXPECT_EQ(run(problem, Class::keep, 100 * mib).peak, 20 * mib);
  Trace trace;
  const Outcome moved = run(problem, Class::swap, 10 * mib, &trace);
  EXPECT_EQ(moved.peak, 10 * mib);
  EXPECT_NEAR(moved.out_busy_us, 100, 1e-6) << "once, as the iteration begins";
  EXPECT_NEAR(moved.in_busy_us, 100, 1e-6);
  EXPECT_NEAR(moved.us, 700, 1e-6) << "the first op waits for its memory";
  EXPECT_EQ(trace.stalls.at(0).cause, Stall::Cause::memory);
  Rules rules;
  rules.cap = 10 * mib;
  const Plan plan = write_plan(problem, {all(problem, Class::swap), rules}, "hybrid");
  EXPECT_TRUE(plan.maps.at(0).across);
  EXPECT_TRUE(plan.after.empty()) << "it is freed, and does not leave again";
}

TEST(Outliving, AGradientThatIsWrittenOnceItIsBackStays) {
  Profile profile = with_gradient();
  PhaseProfile& phase = profile.phases[0];
  phase.ops[4].writes.push_back(1);
  phase.versions.push_back({0, 0, 10 * mib, 4, {}, Role::gradient});
  EXPECT_FALSE(problem_of(profile).maps.at(0).leaves_again());
}

// An iteration of another phase comes next, and has results of another size.
TEST(Outliving, BetweenIterationsOfOtherPhasesAResultLeavesThoughThereIsRoom) {
  Profile profile = with_result();
  profile.phases[0].buffers[1].bytes = 30 * mib;
  EXPECT_TRUE(problem_of(profile).maps.empty()) << "nothing tells when the next iteration frees it";
  const Problem problem = problem_of(profile, Movers::everything_in_turn);
  ASSERT_EQ(problem.maps.size(), 1u);
  EXPECT_TRUE(problem.maps[0].for_good);
  EXPECT_EQ(problem.maps[0].earlier, 1u);
  EXPECT_FALSE(run(problem, Class::keep, 100 * mib).feasible());
  EXPECT_EQ(run(problem, Class::swap, 100 * mib).peak, 10 * mib) << "nor is the other's there";
  Rules rules;
  rules.cap = 100 * mib;
  const Decision decision = hybrid({problem, rules});
  EXPECT_EQ(decision.choice.of[0], Class::swap);
}

TEST(Outliving, AResultWithTwoPlacesInTurnHasBothWhereItStays) {
  Profile profile = with_result();
  profile.phases[0].buffers[0].ranges = {0, 1};
  const Problem problem = problem_of(profile);
  EXPECT_TRUE(problem.maps.at(0).in_turn);
  EXPECT_EQ(run(problem, Class::keep, 100 * mib).peak, 20 * mib);
  EXPECT_EQ(run(problem, Class::swap, 10 * mib).peak, 10 * mib);
}

TEST(Outliving, OthersThatLieInTurnCountTwice) {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 1, 4, {0, 1}}, 1, {2}, Role::activation);
  add(profile, {10 * mib, true, 3, 6, {1, 0}}, 3, {5}, Role::activation);
  const Problem problem = problem_of(profile);
  EXPECT_EQ(run(problem, Class::keep, 100 * mib).peak, 20 * mib);
  EXPECT_GE(problem.segments.back().base, 20 * mib) << "one of them is there";
}

// Where it is away, so are both.
TEST(Outliving, AMapThatLiesInTurnCountsOnce) {
  Profile profile = six_ops();
  add(profile, {10 * mib, true, 0, 6, {0, 1}}, outside, {1, 5}, Role::input);
  const Problem problem = problem_of(profile);
  ASSERT_EQ(problem.maps.size(), 1u);
  for (const Segment& segment : problem.segments) EXPECT_EQ(segment.base, 0u);
}

TEST(Outliving, ReplaysDoNotReadWhatHasLeft) {
  // A map that is made from a weight, which has its last use in forward.
  Profile profile = six_ops();
  add(profile, {20 * mib, true, outside, outside, {}}, outside, {1}, Role::parameter);
  add(profile, {20 * mib, true, 1, 6, {}}, 1, {5}, Role::feature_map);
  const Problem problem = problem_of(profile);
  ASSERT_EQ(problem.maps.size(), 2u);
  ASSERT_TRUE(problem.maps[0].droppable);
  Rules rules;
  rules.cap = 100 * mib;
  Choice choice = all(problem, Class::keep);
  choice.of[0] = Class::recompute;
  EXPECT_TRUE(Simulator(problem, rules).run(choice).feasible());
  choice.of[1] = Class::swap;
  EXPECT_FALSE(Simulator(problem, rules).run(choice).feasible());
}

Problem made_up(std::uint64_t seed) {
  Profile profile = test::random_profile(40 + 6 * seed, seed);
  test::add_what_outlives(profile, seed);
  return problem_of(profile);
}
Choice random_choice(const Problem& problem, std::mt19937_64& random) {
  Choice choice = all(problem, Class::keep);
  choice.part.assign(problem.maps.size(), 0);
  for (std::size_t m = 0; m < problem.maps.size(); ++m)
    choice.of[m] = possible(problem.maps[m], static_cast<Class>(random() % 3));
  return choice;
}

TEST(Outliving, FromABaseTheSimulatorGivesTheSameBitsAsFromScratch) {
  int across = 0, delayed = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Problem problem = made_up(seed);
    across += std::any_of(problem.maps.begin(), problem.maps.end(),
                          [](const MovableMap& map) { return map.across; });
    Rules rules;
    rules.cap = Simulator(problem, rules).run(all(problem, Class::swap)).peak * 5 / 4;
    std::mt19937_64 random(seed);
    Simulator incremental(problem, rules);
    Choice base = random_choice(problem, random);
    incremental.run(base);
    incremental.rebase(base);
    for (int i = 0; i < 60; ++i) {
      Choice choice = base;
      const std::size_t map = random() % problem.maps.size();
      choice.of[map] = possible(problem.maps[map], static_cast<Class>(random() % 3));
      const Outcome one = incremental.run(choice), other = Simulator(problem, rules).run(choice);
      ASSERT_EQ(one.us, other.us) << seed << " " << i;
      ASSERT_EQ(one.peak, other.peak);
      Trace trace;
      ASSERT_EQ(Simulator(problem, rules).run(choice, &trace).us, other.us);
      delayed += std::any_of(trace.stalls.begin(), trace.stalls.end(),
                             [](const Stall& stall) { return stall.segment == 0; });
      if (random() % 3 != 0) continue;
      incremental.rebase(choice);
      base = choice;
    }
  }
  EXPECT_GT(across, 10);
  EXPECT_GT(delayed, 10);
}

TEST(Outliving, WithOtherPausesMadeUpNetworksNeedNoMoreAndHaveValidPlans) {
  int less = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Profile profile = test::random_profile(40 + 6 * seed, seed);
    test::add_what_outlives(profile, seed);
    const Problem before = problem_of(profile);
    const std::uint64_t need = run(before, Class::swap, 0).peak;
    const Problem after = problem_of(profile, Movers::everything, need * 3 / 4);
    PlanRequest request;
    request.memory = run(after, Class::swap, 0).peak;
    EXPECT_LE(request.memory, need) << seed;
    if (request.memory == need) continue;
    ++less;
    const Result<Plan> plan = make_plan(profile, "", "hybrid", request);
    ASSERT_TRUE(plan) << seed << ": " << plan.error().message;
    EXPECT_LE(plan->peak, request.memory) << seed;
    EXPECT_LE(*plan->bound_ms, plan->predicted_ms + 1e-6) << seed;
    const Result<Plan> again = plan_from_json(to_json(*plan));
    ASSERT_TRUE(again) << seed << ": " << again.error().message;
  }
  EXPECT_GT(less, 5);
}

TEST(Outliving, MadeUpNetworksHaveValidPlansNoFasterThanTheBound) {
  int plans = 0, moving = 0;
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    Profile profile = test::random_profile(40 + 6 * seed, seed);
    test::add_what_outlives(profile, seed);
    const Problem problem = problem_of(profile);
    Simulator simulator(problem, Rules{});
    const std::uint64_t least = simulator.run(all(problem, Class::swap)).peak,
                        most = simulator.run(all(problem, Class::keep)).peak;
    PlanRequest request;
    request.memory = least + (most - least) / 4;
    const Result<Plan> plan = make_plan(profile, "", "hybrid", request);
    ASSERT_TRUE(plan) << seed << ": " << plan.error().message;
    ++plans;
    moving +=
        std::any_of(plan->maps.begin(), plan->maps.end(), [](const PlanMap& map) { return map.across; });
    EXPECT_LE(plan->peak, request.memory) << seed;
    EXPECT_LE(*plan->bound_ms, plan->predicted_ms + 1e-6) << seed;
    EXPECT_GE(*plan->bound_ms, plan->in_core_ms - 1e-6) << seed;
    const Result<Plan> again = plan_from_json(to_json(*plan));
    ASSERT_TRUE(again) << seed << ": " << again.error().message;
  }
  EXPECT_EQ(plans, 16);
  EXPECT_GT(moving, 8);
}

}  // namespace
}  // namespace pooch::policy
