#include "policy/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/support/network_profile.h"
#include "tests/support/random_profile.h"

namespace pooch::policy {
namespace {

constexpr std::uint64_t plenty = std::uint64_t{1} << 60;

Problem problem_of(const Profile& profile) {
  Result<Problem> problem = make_problem(profile, profile.phases[0]);
  EXPECT_TRUE(problem) << (problem ? "" : problem.error().message);
  return *problem;
}
Rules with_cap(std::uint64_t cap) {
  Rules rules;
  rules.cap = cap;
  return rules;
}
Choice uniform(const Problem& problem, Class of) {
  Choice choice{std::vector<Class>(problem.maps.size(), of)};
  for (std::size_t m = 0; m < problem.maps.size(); ++m) {
    if (of == Class::recompute && !problem.maps[m].droppable) choice.of[m] = Class::swap;
  }
  return choice;
}
std::size_t named(const Problem& problem, const std::string& name) {
  for (std::size_t m = 0; m < problem.maps.size(); ++m) {
    if (problem.maps[m].name == name) return m;
  }
  ADD_FAILURE() << "no map " << name;
  return 0;
}

// Four ops by hand: a makes 10 MiB in 100 us, b reads it, c passes time, d reads it again. Links carry
// 1 MiB in 10 us, without latency.
Profile four_ops(double pause_us) {
  constexpr std::uint64_t mib = 1 << 20;
  Profile profile;
  profile.link = {{false, mib, 10}, {false, 10 * mib, 100}, {true, mib, 10}, {true, 10 * mib, 100}};
  PhaseProfile& phase = profile.phases.emplace_back();
  phase.id = "four";
  phase.turn = 3;
  phase.buffers = {{10 * mib, true, 0, 6}, {4 * mib, true, 3, 4}};
  phase.versions = {{0, 0, 10 * mib, 0, {1, 5}, Role::feature_map}, {1, 0, 4 * mib, 3, {}, Role::gradient}};
  for (int i = 0; i < 6; ++i) {
    ProfileOp op;
    op.kind = OpKind::conv_forward;
    op.us = i == 3 ? pause_us : 100;
    phase.ops.push_back(op);
  }
  phase.ops[0].writes = {0};
  phase.ops[1].reads = phase.ops[5].reads = {0};
  phase.ops[3].writes = {1};
  return profile;
}

TEST(Problem, TheLongestPauseIsWhenAMapMayBeAway) {
  const Problem problem = problem_of(four_ops(1000));
  ASSERT_EQ(problem.maps.size(), 1u);
  const MovableMap& map = problem.maps[0];
  EXPECT_EQ(problem.segments[map.leaves].last, 1);
  EXPECT_EQ(problem.segments[map.returns].first, 5);
  EXPECT_TRUE(map.droppable);
  EXPECT_EQ(map.producers, std::vector<std::int32_t>{0});
  EXPECT_NEAR(problem.out.us(10 << 20), 100, 1e-6);
}

// They are read and written in place, so that they are gone by the time of a replay; its result needs none.
TEST(Problem, RunningStatisticsForbidNoReplay) {
  Profile profile = four_ops(1000);
  PhaseProfile& phase = profile.phases[0];
  phase.buffers.push_back({1024, false, outside, outside});
  phase.versions.push_back({2, 0, 1024, outside, {0}, Role::parameter});
  phase.versions.push_back({2, 0, 1024, 0, {}, Role::parameter});
  phase.ops[0].reads = {2};
  phase.ops[0].writes = {0, 3};
  EXPECT_FALSE(problem_of(profile).maps[0].droppable) << "a convolution that needs what it overwrites";
  phase.ops[0].kind = OpKind::batch_norm_forward;
  EXPECT_TRUE(problem_of(profile).maps[0].droppable);
}

// Op 0 makes a map of a version that op 2 overwrites; a substitute needs another one, and less time.
Profile with_substitute(double us) {
  Profile profile = four_ops(1000);
  PhaseProfile& phase = profile.phases[0];
  phase.buffers.push_back({1024, false, outside, outside});
  phase.versions.push_back({2, 0, 1024, outside, {0}, Role::parameter});
  phase.versions.push_back({2, 0, 1024, 2, {}, Role::parameter});
  phase.buffers.push_back({1024, false, outside, outside});
  phase.versions.push_back({3, 0, 1024, outside, {}, Role::parameter});
  phase.ops[0].reads = {2};
  phase.ops[2].writes.push_back(3);
  phase.ops[0].substitute = {{{4}, {0}, outside, Clip::none, Formula::one_fma, us}};
  return profile;
}

TEST(Problem, ASubstituteIsWhatAReplayTakesReadsAndMakes) {
  Profile profile = with_substitute(40);
  const Problem problem = problem_of(profile);
  EXPECT_EQ(problem.op_us[0], 40);
  ASSERT_EQ(problem.sources[0].size(), 1u);
  EXPECT_EQ(problem.sources[0][0].version, 4u);
  EXPECT_TRUE(problem.maps[0].droppable) << "what the call itself needs is overwritten";
  EXPECT_EQ(problem.substitutes, (std::map<std::int32_t, Formula>{{0, Formula::one_fma}}));
  Simulator simulator(problem, with_cap(12 << 20));
  EXPECT_NEAR(simulator.run(uniform(problem, Class::recompute)).replay_us, 40, 1e-6);
  profile.phases[0].ops[0].substitute->formula.reset();
  EXPECT_FALSE(problem_of(profile).maps[0].droppable) << "no formula makes the same bits";
}

TEST(Problem, ASubstituteThatTakesLongerIsNone) {
  const Problem problem = problem_of(with_substitute(140));
  EXPECT_EQ(problem.op_us[0], 100);
  EXPECT_TRUE(problem.substitutes.empty());
  EXPECT_FALSE(problem.maps[0].droppable);
}

TEST(Problem, WithoutSamplesTheProgramsOwnCopiesTellTheRate) {
  Profile profile = four_ops(1000);
  profile.link.clear();
  profile.phases[0].copies = {{0, true, 12'000'000, 0, 1000, std::nullopt}};
  EXPECT_FALSE(make_problem(profile, profile.phases[0])) << "none to the host";
  const Result<Problem> problem = make_problem(profile, profile.phases[0], {6e9, std::nullopt});
  ASSERT_TRUE(problem) << problem.error().message;
  EXPECT_NEAR(problem->in.us(12'000'000), 1000, 1e-6);
  EXPECT_NEAR(problem->out.us_per_byte, 1e6 / 6e9, 1e-12);
}

TEST(Problem, ALinkThatCarriesNothingIsAnError) {
  Profile profile = four_ops(100);
  for (LinkSample& sample : profile.link) sample.us = 0;
  const Result<Problem> problem = make_problem(profile, profile.phases[0]);
  ASSERT_FALSE(problem);
  EXPECT_NE(problem.error().message.find("took no time"), std::string::npos) << problem.error().message;
  profile.link.clear();
  EXPECT_FALSE(make_problem(profile, profile.phases[0]));
}

TEST(Problem, APhaseWithoutTimesIsAnError) {
  Profile profile = four_ops(100);
  for (ProfileOp& op : profile.phases[0].ops) op.us = 0;
  const Result<Problem> problem = make_problem(profile, profile.phases[0]);
  ASSERT_FALSE(problem);
  EXPECT_NE(problem.error().message.find("not timed"), std::string::npos);
}

TEST(Timeline, KeepTakesWhatTheOpsTake) {
  const Problem problem = problem_of(four_ops(1000));
  Simulator simulator(problem, with_cap(plenty));
  const Outcome outcome = simulator.run(uniform(problem, Class::keep));
  EXPECT_DOUBLE_EQ(outcome.us, 1500);
  EXPECT_EQ(outcome.peak, 14u << 20);
}

// A batch that was seen to come while the iteration before still ran costs nothing, as long as the link has
// the time for it; one that came behind its last op holds up the first.
TEST(Timeline, ABatchThatIsBroughtAheadComesBesideTheOps) {
  Profile profile = four_ops(1000);
  profile.phases[0].copies = {{0, true, 30 << 20, 1, 300, std::nullopt}};
  profile.phases[0].buffers.push_back({30 << 20, true, 0, 6});
  profile.phases[0].versions.push_back({2, 0, 30 << 20, outside, {0}, Role::input});
  profile.phases[0].ops[0].reads = {2};
  profile.phases[0].copies[0].version = 2;
  const auto keep_us = [&] {
    const Problem problem = problem_of(profile);
    return Simulator(problem, with_cap(plenty)).run(uniform(problem, Class::keep)).us;
  };
  EXPECT_NEAR(keep_us(), 1800, 1e-6);
  profile.phases[0].copies[0].lead_us = 50;
  EXPECT_NEAR(keep_us(), 1500, 1e-6);
  const Problem problem = problem_of(profile);
  Trace trace;
  const Outcome outcome =
      Simulator(problem, with_cap(std::uint64_t{44} << 20)).run(uniform(problem, Class::swap), &trace);
  const auto fetched = std::find_if(trace.spans.begin(), trace.spans.end(),
                                    [](const Span& s) { return s.engine == Engine::in; });
  ASSERT_NE(fetched, trace.spans.end());
  EXPECT_GE(outcome.us, fetched->end + 300) << "the link brings it behind what the iteration fetches";
  profile.phases[0].copies[0].us = 9000;
  EXPECT_NEAR(keep_us(), 9000, 1e-6) << "and is the limit where it takes longer than everything else";
}

TEST(Timeline, ASwapBehindEnoughComputeIsFree) {
  const Problem problem = problem_of(four_ops(1000));
  Simulator simulator(problem, with_cap(12 << 20));
  const Outcome outcome = simulator.run(uniform(problem, Class::swap));
  EXPECT_TRUE(outcome.feasible());
  // 10 MiB leave in 100 us beside the third op. The fourth needs 4 MiB, so the fetch waits for its end: it
  // runs beside the fifth op.
  EXPECT_NEAR(outcome.us, 1500, 1e-6);
  EXPECT_EQ(outcome.peak, 10u << 20);
}

TEST(Timeline, ComputeWaitsForACopyThatMemoryDelays) {
  Profile profile = four_ops(1000);
  profile.phases[0].ops[4].us = 30;
  const Problem problem = problem_of(profile);
  Simulator simulator(problem, with_cap(12 << 20));
  Trace trace;
  const Outcome outcome = simulator.run(uniform(problem, Class::swap), &trace);
  EXPECT_NEAR(outcome.us, 1430 + 70, 1e-6);
  ASSERT_EQ(trace.stalls.size(), 1u);
  EXPECT_NEAR(trace.stalls[0].us, 70, 1e-6);
  EXPECT_EQ(trace.stalls[0].map, 0);
}

TEST(Timeline, MemoryIsFreeOnlyWhenTheCopyOutHasEnded) {
  Profile profile = four_ops(1000);
  profile.phases[0].ops[2].us = 40;  // of the 100 us that the copy takes
  const Problem problem = problem_of(profile);
  Simulator simulator(problem, with_cap(12 << 20));
  Trace trace;
  const Outcome outcome = simulator.run(uniform(problem, Class::swap), &trace);
  EXPECT_NEAR(outcome.us, 1440 + 60, 1e-6);
  ASSERT_FALSE(trace.stalls.empty());
  EXPECT_EQ(trace.stalls[0].cause, Stall::Cause::memory);
  EXPECT_NEAR(trace.stalls[0].us, 60, 1e-6);
}

TEST(Timeline, APartMovesForItsShareOfTime) {
  const Problem problem = problem_of(four_ops(1000));
  Simulator simulator(problem, with_cap(12 << 20));
  Choice choice = uniform(problem, Class::swap);
  choice.part = {2 << 20};
  const Outcome outcome = simulator.run(choice);
  EXPECT_TRUE(outcome.feasible());
  EXPECT_EQ(outcome.peak, 12u << 20);
  EXPECT_NEAR(outcome.out_busy_us, 20, 1e-6);
}

TEST(Timeline, ARecomputedMapCostsItsReplay) {
  const Problem problem = problem_of(four_ops(1000));
  Simulator simulator(problem, with_cap(12 << 20));
  const Outcome outcome = simulator.run(uniform(problem, Class::recompute));
  EXPECT_TRUE(outcome.feasible());
  EXPECT_NEAR(outcome.us, 1600, 1e-6);
  EXPECT_NEAR(outcome.replay_us, 100, 1e-6);
}

TEST(Timeline, MovedHandlesCostHostTimeOnlyWhereTheyMove) {
  const Problem problem = problem_of(four_ops(1000));
  Rules rules = with_cap(12 << 20);
  rules.placed = false;
  rules.chunk_us = 4;
  rules.handle_us = 15;
  rules.launch_us = 5;
  Simulator simulator(problem, rules);
  EXPECT_NEAR(simulator.run(uniform(problem, Class::keep)).us, 1500, 1e-6);
  // The fetch takes handles that the fourth op has just given back: the host sees that, maps, and launches.
  const double swapped = simulator.run(uniform(problem, Class::swap)).us;
  const double moved_us = rules.chunk_us + 5 * rules.handle_us;  // 10 MiB
  EXPECT_GT(swapped, 1500 + moved_us);
  EXPECT_LT(swapped, 1500 + 2 * moved_us + 4 * rules.launch_us);
}

// ReLU works in the batch norm's memory: to have its output again, both run again.
TEST(Timeline, AReplayInPlaceStartsWithWhatWroteTheMemoryFirst) {
  const Problem problem = problem_of(test::resnet50_profile(test::v100_pcie3(), 64));
  Simulator simulator(problem, with_cap(plenty));
  Choice choice = uniform(problem, Class::keep);
  choice.of[named(problem, "conv2_1.1.relu.out")] = Class::recompute;
  simulator.run(choice);
  std::vector<std::int32_t> replays;
  for (const Step& step : simulator.schedule().steps) {
    if (step.replay != nowhere) replays.push_back(step.replay);
  }
  // Ops 0 to 4 are conv1, its norm and ReLU, the pooling and this block's first convolution.
  EXPECT_EQ(replays, (std::vector<std::int32_t>{5, 6}));
}

// All others are kept.
Choice last_blocks_of_a_stage_dropped(const Problem& problem) {
  Choice choice = uniform(problem, Class::keep);
  for (const char* name : {"conv3_2.relu.out", "conv3_3.relu.out", "conv3_4.relu.out"})
    choice.of[named(problem, name)] = Class::recompute;
  return choice;
}

// A block's output is made from the one before: dropping all of a stage makes a chain through it.
// Op 0 makes a, op 1 makes b of it, op 4 makes x, op 5 reads b and x: 10 MiB each.
Profile with_a_neighbour_of_the_reader() {
  constexpr std::uint64_t bytes = 10 << 20;
  Profile profile = four_ops(1000);
  PhaseProfile& phase = profile.phases[0];
  phase.turn = 4;
  phase.buffers = {{bytes, true, 0, 2}, {bytes, true, 1, 6}, {bytes, true, 4, 6}};
  phase.versions = {{0, 0, bytes, 0, {1}, Role::feature_map},
                    {1, 0, bytes, 1, {2, 5}, Role::feature_map},
                    {2, 0, bytes, 4, {5}, Role::gradient}};
  for (ProfileOp& op : phase.ops) op.reads = op.writes = {};
  phase.ops[0].writes = phase.ops[1].reads = {0};
  phase.ops[1].writes = phase.ops[2].reads = {1};
  phase.ops[4].writes = {2};
  phase.ops[5].reads = {1, 2};
  return profile;
}

TEST(Timeline, ReplaysRunAheadOfWhatIsMadeRightBeforeTheReader) {
  const Problem problem = problem_of(with_a_neighbour_of_the_reader());
  ASSERT_EQ(problem.maps.size(), 1u);
  EXPECT_EQ(problem.segments[problem.maps[0].returns].first, 5);
  EXPECT_EQ(problem.segments[problem.maps[0].remade].first, 4);
  Rules rules = with_cap(plenty);
  Simulator at_need(problem, rules);
  rules.replays_ahead = true;
  Simulator ahead(problem, rules);
  const Choice drop = uniform(problem, Class::recompute);
  const Outcome late = at_need.run(drop), early = ahead.run(drop);
  EXPECT_EQ(late.peak, 30u << 20) << "a, b and x";
  EXPECT_EQ(early.peak, 20u << 20) << "a and b, then b and x";
  EXPECT_EQ(early.us, late.us);
}

TEST(Timeline, ReplaysRunAheadOfNothingThatNeedsMoreMemoryThanTheReader) {
  Profile profile = with_a_neighbour_of_the_reader();
  PhaseProfile& phase = profile.phases[0];
  phase.buffers.push_back({2 << 20, true, 4, 5});  // a workspace
  phase.ops[4].scratch = {3};
  const Problem problem = problem_of(profile);
  EXPECT_EQ(problem.maps[0].remade, problem.maps[0].returns);
}

TEST(Timeline, DroppedBlockOutputsChainThroughTheirStage) {
  const Problem problem = problem_of(test::resnet50_profile(test::v100_pcie3(), 64));
  Simulator simulator(problem, with_cap(plenty));
  simulator.run(last_blocks_of_a_stage_dropped(problem));
  int replays = 0, segments = 0;
  std::int32_t last = nowhere;
  for (const Step& step : simulator.schedule().steps) {
    if (step.replay == nowhere) continue;
    ++replays;
    segments += step.segment != last;
    last = step.segment;
  }
  EXPECT_EQ(replays, 9);   // norm, sum and ReLU of each
  EXPECT_EQ(segments, 1);  // all before the first reader
}

// Brief, each is made for whoever comes before its own return: more is replayed, and less lives meanwhile.
TEST(Timeline, BriefMapsAreMadeForEachOfTheirReaders) {
  const Problem problem = problem_of(test::resnet50_profile(test::v100_pcie3(), 64));
  Simulator simulator(problem, with_cap(plenty));
  Choice choice = last_blocks_of_a_stage_dropped(problem);
  const std::size_t last = named(problem, "conv3_4.relu.out");
  const auto live_with_its_reader = [&] {
    simulator.run(choice);
    return simulator.schedule().live[simulator.schedule().step_of[problem.maps[last].returns]];
  };
  const std::uint64_t lasting = live_with_its_reader();
  choice.brief.assign(problem.maps.size(), 1);
  EXPECT_EQ(live_with_its_reader(), lasting - 2 * problem.maps[last].bytes) << "the other two are gone again";
  int replays = 0;
  for (const Step& step : simulator.schedule().steps) replays += step.replay != nowhere;
  EXPECT_EQ(replays, 9 + 6 + 3);
}

// Checks a run without using the simulator's own accounts: engines do one thing at a time, copies and their
// readers follow each other, and at no moment more is on the device than the cap.
void check_trace(const Problem& problem, const Choice& choice, const Trace& trace, const Rules& rules) {
  std::map<Engine, double> engine_end;
  std::vector<double> arrived(problem.maps.size(), -1), back = arrived;
  std::vector<std::vector<double>> left(problem.maps.size()), fetch_start = left;  // by piece
  std::vector<double> segment_start(problem.segments.size()), segment_end = segment_start;
  for (const Span& span : trace.spans) {
    ASSERT_GE(span.start, engine_end[span.engine] - 1e-6);
    engine_end[span.engine] = span.end;
    if (span.engine == Engine::out) left[span.map].push_back(span.end);
    if (span.engine == Engine::in) fetch_start[span.map].push_back(span.start), arrived[span.map] = span.end;
    if (span.engine == Engine::compute && span.map == nowhere) {
      segment_start[problem.segment_of[span.position]] = span.start;
      segment_end[problem.segment_of[span.position]] = span.end;
    }
    if (span.engine == Engine::compute && span.map != nowhere) {
      const auto& mine = problem.writes[span.position];
      for (const std::uint32_t v : mine) {
        const std::int32_t map = problem.map_of[v];
        const bool stays = map != nowhere && (!choice.is_brief(map) || map == span.map);
        if (stays && choice.of[map] == Class::recompute && back[map] < 0) back[map] = span.start;
      }
    }
  }
  std::map<double, std::int64_t> change;
  const auto hold = [&](double from, double to, std::uint64_t bytes) {
    change[from] += static_cast<std::int64_t>(bytes);
    change[to] -= static_cast<std::int64_t>(bytes);
  };
  for (std::size_t s = 0; s < problem.segments.size(); ++s)
    hold(segment_start[s], segment_end[s], problem.segments[s].base);
  for (std::size_t m = 0; m < problem.maps.size(); ++m) {
    const MovableMap& map = problem.maps[m];
    const double made = segment_start[map.made], ends = segment_end[map.ends];
    const double leaves = segment_end[map.leaves], returns = segment_start[map.returns];
    if (choice.of[m] == Class::keep) {
      hold(made, ends, map.bytes);
    } else if (choice.of[m] == Class::swap) {
      const std::uint64_t moved = choice.swapped(problem, m);
      const std::uint64_t most = piece_of(map.bytes, rules.piece_bytes);
      const std::size_t pieces = (moved + most - 1) / most;
      ASSERT_EQ(left[m].size(), pieces);
      ASSERT_EQ(fetch_start[m].size(), pieces);
      ASSERT_LE(arrived[m], returns + 1e-6) << map.name;
      hold(made, ends, map.bytes - moved);
      for (std::size_t i = 0; i < pieces; ++i) {
        const std::uint64_t piece = std::min(most, moved - i * most);
        ASSERT_GE(left[m][i], leaves - 1e-6) << map.name;
        ASSERT_GE(fetch_start[m][i], left[m][i] - 1e-6) << map.name;
        hold(made, left[m][i], piece);
        hold(fetch_start[m][i], ends, piece);
      }
    } else {
      ASSERT_LE(back[m], returns) << map.name;
      ASSERT_GE(back[m], leaves) << map.name;
      hold(made, leaves, map.bytes);
      hold(back[m], ends, map.bytes);
    }
  }
  std::int64_t live = 0;
  for (auto at = change.begin(); at != change.end();) {
    // Moments that differ by rounding only are one.
    const double now = at->first;
    for (; at != change.end() && at->first - now < 1e-6; ++at) live += at->second;
    ASSERT_LE(live, static_cast<std::int64_t>(rules.cap)) << "at " << now;
  }
}

Choice random_choice(const Problem& problem, std::mt19937_64& random) {
  Choice choice = uniform(problem, Class::keep);
  choice.part.assign(problem.maps.size(), 0);
  choice.brief.assign(problem.maps.size(), 0);
  const std::uint64_t weight = 2 + random() % 8;
  for (std::size_t m = 0; m < problem.maps.size(); ++m) {
    const std::uint64_t drawn = random() % weight;
    if (drawn == 1) choice.of[m] = Class::swap;
    if (drawn == 2 && problem.maps[m].droppable) choice.of[m] = Class::recompute;
    choice.brief[m] = random() % 2;
    if (drawn == 1 && random() % 3 == 0)
      choice.part[m] = granularity * (1 + random() % (problem.maps[m].bytes / granularity));
  }
  return choice;
}

void check_random_choices(const Problem& problem, std::uint64_t seed, int choices) {
  std::mt19937_64 random(seed);
  Simulator fresh(problem, with_cap(plenty));
  const double in_core = fresh.run(uniform(problem, Class::keep)).us;
  for (int i = 0; i < choices; ++i) {
    const Choice choice = random_choice(problem, random);
    Simulator simulator(problem, with_cap(0));
    simulator.rules().piece_bytes = granularity * (1 + random() % 64);
    simulator.rules().replays_ahead = i % 2 == 0;
    const std::uint64_t least = simulator.run(choice).peak;
    simulator.rules().cap = least + random() % (least / 8 + 1);
    Trace trace;
    const Outcome outcome = simulator.run(choice, &trace);
    ASSERT_TRUE(outcome.feasible()) << "what fits with fetches as late as can be fits";
    EXPECT_GE(outcome.us, in_core + outcome.replay_us - 1e-6);
    check_trace(problem, choice, trace, std::as_const(simulator).rules());
    if (::testing::Test::HasFatalFailure()) return;
    // With every account kept from run to run, nothing is left of the run before.
    fresh.rules() = simulator.rules();
    EXPECT_EQ(fresh.run(choice).us, outcome.us);
  }
}

TEST(Timeline, KeepsTheCapAtEveryMomentOfAResidualNetwork) {
  check_random_choices(problem_of(test::resnet50_profile(test::v100_pcie3(), 256)), 1, 300);
}

TEST(Timeline, KeepsTheCapAtEveryMomentOfMadeUpNetworks) {
  int with_maps = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Problem problem = problem_of(test::random_profile(30 + 5 * seed, seed));
    if (problem.maps.empty()) continue;
    ++with_maps;
    SCOPED_TRACE(seed);
    check_random_choices(problem, seed, 25);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(with_maps, 30);
}

TEST(Timeline, AFasterLinkOrMoreMemoryIsNotSlower) {
  const Problem slow = problem_of(test::resnet50_profile(test::v100_pcie3(), 384));
  Problem fast = slow;
  fast.in.us_per_byte /= 2, fast.out.us_per_byte /= 2;
  fast.in.shared_us_per_byte /= 2, fast.out.shared_us_per_byte /= 2;
  std::mt19937_64 random(5);
  for (int i = 0; i < 50; ++i) {
    const Choice choice = random_choice(slow, random);
    Simulator simulator(slow, with_cap(0)), faster(fast, with_cap(0));
    const std::uint64_t least = simulator.run(choice).peak;
    simulator.rules().cap = faster.rules().cap = least + least / 16;
    const double us = simulator.run(choice).us;
    EXPECT_LE(faster.run(choice).us, us * 1.02);
    simulator.rules().cap = least + least / 4;
    EXPECT_LE(simulator.run(choice).us, us * 1.02);
  }
}

}  // namespace
}  // namespace pooch::policy
