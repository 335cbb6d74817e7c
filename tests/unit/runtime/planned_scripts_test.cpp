// What the planner makes, the runtime follows: two workings of the same rules that share no code.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "policy/decide.h"
#include "runtime/script/script.h"
#include "tests/support/network_profile.h"
#include "tests/support/planned_phase.h"
#include "tests/support/random_profile.h"

namespace pooch {
namespace {

struct Tally {
  int plans = 0, replaying = 0, brief = 0, in_pieces = 0, substituting = 0, through = 0;
  std::map<std::string, int> refused;
};

// Under caps from what keeping everything needs down to what swapping everything does.
void plan_and_compile(const Profile& profile, const PhaseProfile& phase, const std::string& what,
                      std::initializer_list<const char*> policies, Tally& tally) {
  const auto problem = policy::make_problem(profile, phase);
  if (!problem || problem->maps.empty()) return;
  policy::Simulator simulator(*problem, policy::Rules{});
  const std::uint64_t least = simulator.run(policy::all(*problem, policy::Class::swap)).peak,
                      most = simulator.run(policy::all(*problem, policy::Class::keep)).peak;
  const PhaseProfile mine = test::with_operands(phase);
  for (const char* policy : policies) {
    for (const std::uint64_t eighth : {0, 1, 3, 6}) {
      policy::PlanRequest request;
      request.memory = least + (most - least) * eighth / 8;
      request.bound = false;
      const auto plan = policy::make_plan(profile, phase.id, policy, request);
      if (!plan) continue;
      ++tally.plans;
      tally.replaying += std::any_of(plan->maps.begin(), plan->maps.end(),
                                     [](const PlanMap& map) { return map.of == MapClass::recompute; });
      tally.brief +=
          std::any_of(plan->maps.begin(), plan->maps.end(), [](const PlanMap& map) { return map.brief; });
      tally.in_pieces += std::any_of(plan->before.begin(), plan->before.end(), [](const auto& before) {
        return std::any_of(before.second.begin(), before.second.end(),
                           [](const PlanAction& action) { return action.up_to > 0; });
      });
      bool substituting = false, through = false;
      for (const auto& [position, actions] : plan->before) {
        for (const PlanAction& action : actions) {
          substituting |= action.formula.has_value();
          through |= action.formula && phase.ops[action.subject].substitute->through != outside;
        }
      }
      tally.substituting += substituting;
      tally.through += through;
      const auto read = plan_from_json(to_json(*plan));
      ASSERT_TRUE(read) << what << policy << ": " << read.error().message;
      const auto script = runtime::Script::compile(*read, mine, 0);
      if (!script) ++tally.refused[what + " " + policy + ": " + script.error().message];
    }
  }
}

TEST(PlannedScripts, OfMadeUpNetworksAreAllFollowed) {
  const char* const wanted = std::getenv("PLANNED_SCRIPTS_SEEDS");
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 24;
  Tally tally;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const Profile profile = test::random_profile(30 + 5 * (seed % 24), seed);
    for (const PhaseProfile& phase : profile.phases)
      plan_and_compile(profile, phase, fmt::format("seed {}", seed),
                       {"hybrid", "pooch", "superneurons", "swap-all", "vdnn-dyn"}, tally);
  }
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.plans, 100);
  EXPECT_GT(tally.replaying, 20);
  EXPECT_GT(tally.brief, 5);
  EXPECT_GT(tally.in_pieces, 5);
}

// Batch norms can be made again in less time; where a ReLU follows in place, with that.
void add_substitutes(PhaseProfile& phase) {
  for (ProfileOp& op : phase.ops) {
    if (op.kind != OpKind::batch_norm_forward) continue;
    ProfileSubstitute by{op.reads, op.writes, outside, Clip::none, Formula::one_fma, op.us * 2 / 3};
    const ProfileVersion& made = phase.versions[op.writes[0]];
    const std::int32_t reader = made.readers.size() == 1 ? made.readers[0] : outside;
    if (reader != outside && phase.ops[reader].mode == "relu" && phase.ops[reader].writes.size() == 1 &&
        phase.versions[phase.ops[reader].writes[0]].buffer == made.buffer)
      by.makes = phase.ops[reader].writes, by.through = reader, by.clip = Clip::keeps_nan;
    op.substitute = std::move(by);
  }
}

TEST(PlannedScripts, WithSubstitutesAreAllFollowed) {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    Profile profile = test::random_profile(60 + 10 * seed, seed);
    for (PhaseProfile& phase : profile.phases) {
      add_substitutes(phase);
      plan_and_compile(profile, phase, fmt::format("seed {}", seed), {"hybrid", "superneurons"}, tally);
    }
  }
  Profile resnet = test::resnet_profile(test::v100_pcie3(), 64, {1, 1, 1, 1});
  add_substitutes(resnet.phases[0]);
  plan_and_compile(resnet, resnet.phases[0], "resnet", {"hybrid", "superneurons"}, tally);
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.substituting, 10);
  EXPECT_GT(tally.through, 5);
}

TEST(PlannedScripts, OfWellKnownNetworksAreAllFollowed) {
  Tally tally;
  const test::Machine machine = test::v100_pcie3();
  for (const Profile& profile : {test::resnet_profile(machine, 64, {1, 1, 1, 1}),
                                 test::vgg16_profile(machine, 32), test::alexnet_profile(machine, 128),
                                 test::googlenet_profile(machine, 64), test::chain_profile(machine, 64, 12)})
    plan_and_compile(profile, profile.phases[0], profile.phases[0].id, {"hybrid", "superneurons", "swap-all"},
                     tally);
  for (const auto& [why, times] : tally.refused) ADD_FAILURE() << why << " (" << times << ")";
  EXPECT_GT(tally.replaying, 10);
}

using Versions = std::vector<std::uint32_t>;

// What each op reads and writes.
void add_ops(PhaseProfile& phase, const std::vector<std::pair<Versions, Versions>>& ops) {
  for (const auto& [reads, writes] : ops) {
    ProfileOp& op = phase.ops.emplace_back();
    op.kind = OpKind::elementwise;
    op.us = 1;
    op.reads = reads;
    op.writes = writes;
  }
}

// Op 0 makes a map of the input, op 1 changes it in place, op 2 reads it; op 4 reads it again.
PhaseProfile in_place_phase() {
  constexpr std::uint64_t bytes = 4 << 20;
  PhaseProfile phase;
  phase.id = "9f31";
  phase.functions = {"work"};
  phase.buffers = {{bytes, true}, {bytes, true, 0, 5}, {bytes, true, 2, 5}, {bytes, true, 3, 5}};
  phase.versions = {{0, 0, bytes, outside, {0}, Role::input},
                    {1, 0, bytes, 0, {1}, Role::activation},
                    {1, 0, bytes, 1, {2, 4}, Role::feature_map},
                    {2, 0, bytes, 2, {3}, Role::activation},
                    {3, 0, bytes, 3, {4}, Role::activation}};
  add_ops(phase, {{{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{3}, {4}}, {{2, 4}, {}}});
  return phase;
}

std::string compiled(std::vector<std::int32_t> by, const Plan::Actions& before, std::int32_t dropped_after) {
  const PhaseProfile phase = test::with_operands(in_place_phase());
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  PlanMap map;
  map.buffer = 1;
  map.bytes = 4 << 20;
  map.of = MapClass::recompute;
  map.by = std::move(by);
  plan.maps = {map};
  plan.before = before;
  plan.after[dropped_after] = {{PlanAction::Kind::drop, 0}};
  const auto script = runtime::Script::compile(plan, phase, 0);
  return script ? "" : script.error().message;
}

TEST(PlannedScripts, NothingMayReadWhatIsGone) {
  const PlanAction conv{PlanAction::Kind::replay, 0}, relu{PlanAction::Kind::replay, 1};
  EXPECT_EQ(compiled({0, 1}, {{4, {conv, relu}}}, 2), "");
  EXPECT_EQ(compiled({0, 1}, {{4, {conv, relu, conv}}}, 2), "")
      << "once it is back, nothing is written over it";
  EXPECT_EQ(compiled({0, 1}, {{4, {conv, relu}}}, 1), "plan: op 2 needs map 0, which is not whole by then");
  EXPECT_EQ(compiled({0}, {{4, {conv}}}, 2), "plan: op 4 needs map 0, which is not whole by then");
  EXPECT_EQ(compiled({0}, {{4, {conv, relu}}}, 2),
            "plan: the replay of op 1 before op 4 would overwrite what lives");
  EXPECT_EQ(compiled({0, 1}, {{4, {relu, conv}}}, 2),
            "plan: the replay of op 1 before op 4 reads what is gone");
  EXPECT_EQ(compiled({0, 1}, {{3, {conv}}, {4, {relu}}}, 2),
            "plan: the replay of op 1 before op 4 reads what is gone");
  EXPECT_EQ(compiled({0, 1}, {{3, {conv, relu}}, {4, {relu}}}, 2),
            "plan: the replay of op 1 before op 4 reads what is gone");
}

// Op 0 makes A, op 1 makes B of it, op 2 changes A in place. A is made again before op 4, and then B before
// op 5: of A's first version, which has a place of its own by then. Op 2 has nothing to do with that, and has
// not run when B is dropped.
TEST(PlannedScripts, WhatPassesThroughTemporaryMemoryNeedsNothingThatCameBackBefore) {
  constexpr std::uint64_t bytes = 4 << 20;
  PhaseProfile profile;
  profile.id = "9f32";
  profile.functions = {"work"};
  profile.buffers = {{bytes, true}, {bytes, true, 0, 6}, {bytes, true, 1, 6}, {bytes, true, 3, 6}};
  profile.versions = {{0, 0, bytes, outside, {0}, Role::input},
                      {1, 0, bytes, 0, {1, 2}, Role::activation},
                      {2, 0, bytes, 1, {5}, Role::feature_map},
                      {1, 0, bytes, 2, {4}, Role::feature_map},
                      {3, 0, bytes, 3, {4}, Role::activation}};
  add_ops(profile, {{{0}, {1}}, {{1}, {2}}, {{1}, {3}}, {{}, {4}}, {{3, 4}, {}}, {{2}, {}}});
  const PhaseProfile phase = test::with_operands(profile);
  Plan plan;
  plan.phase = profile.id;
  plan.structure = structure_of(profile);
  PlanMap a, b;
  a.map = 0, a.buffer = 1, a.by = {0, 2};
  b.map = 1, b.buffer = 2, b.by = {1};
  a.bytes = b.bytes = bytes;
  a.of = b.of = MapClass::recompute;
  plan.maps = {a, b};
  const auto replay = [](std::uint32_t op) { return PlanAction{PlanAction::Kind::replay, op}; };
  plan.before = {{4, {replay(0), replay(2)}}, {5, {replay(0), replay(1)}}};
  plan.after = {{1, {{PlanAction::Kind::drop, 1}}}, {2, {{PlanAction::Kind::drop, 0}}}};
  const auto script = runtime::Script::compile(plan, phase, 0);
  ASSERT_TRUE(script) << script.error().message;
  std::vector<std::int32_t> positions;
  for (const std::uint32_t index : script->maps()[1].chain)
    positions.push_back(script->replays()[index].position);
  EXPECT_EQ(positions, (std::vector<std::int32_t>{0, 1}));
}

constexpr std::uint64_t mib = 1 << 20;

Plan plan_of(const PhaseProfile& profile, const std::vector<PlanMap>& maps) {
  Plan plan;
  plan.phase = profile.id;
  plan.structure = structure_of(profile);
  plan.maps = maps;
  return plan;
}

// Op 0 makes A of the input, op 1 makes B of A; op 3 reads B again, op 4 reads A.
PhaseProfile two_maps() {
  PhaseProfile profile;
  profile.id = "9f33";
  profile.functions = {"work"};
  profile.buffers = {{4 * mib, true}, {4 * mib, true, 0, 5}, {4 * mib, true, 1, 5}, {4 * mib, true, 2, 5}};
  profile.versions = {{0, 0, 4 * mib, outside, {0}, Role::input},
                      {1, 0, 4 * mib, 0, {1, 4}, Role::feature_map},
                      {2, 0, 4 * mib, 1, {2, 3}, Role::feature_map},
                      {3, 0, 4 * mib, 2, {3}, Role::activation}};
  add_ops(profile, {{{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{2, 3}, {}}, {{1}, {}}});
  return profile;
}

TEST(PlannedScripts, ABriefMapIsBackWithTheLastReplaysThatMakeIt) {
  const PhaseProfile profile = two_maps();
  PlanMap a, b;
  a.map = 0, a.buffer = 1, a.by = {0}, a.brief = true;
  b.map = 1, b.buffer = 2, b.by = {1};
  a.bytes = b.bytes = 4 * mib;
  a.of = b.of = MapClass::recompute;
  Plan plan = plan_of(profile, {a, b});
  const PlanAction first{PlanAction::Kind::replay, 0}, second{PlanAction::Kind::replay, 1};
  plan.before = {{3, {first, second}}, {4, {first}}};
  plan.after = {{1, {{PlanAction::Kind::drop, 0}}}, {2, {{PlanAction::Kind::drop, 1}}}};
  const auto script = runtime::Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(script) << script.error().message;
  ASSERT_EQ(script->replays().size(), 3u);
  EXPECT_TRUE(script->replays()[0].restores.empty()) << "for B alone";
  EXPECT_EQ(script->replays()[1].restores, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(script->replays()[2].restores, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(script->life(1).back, 4);
  ASSERT_EQ(script->slots().size(), 1u);
  EXPECT_EQ(script->slots()[0].held, (std::pair<std::int32_t, std::int32_t>{3, 3}));

  plan.maps[0].brief = false;
  const auto lasting = runtime::Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(lasting) << lasting.error().message;
  EXPECT_EQ(lasting->life(1).back, 3);
}

TEST(PlannedScripts, AMapThatIsToLeaveBeforeItIsThereStays) {
  const PhaseProfile profile = two_maps();
  PlanMap map;
  map.buffer = 3;  // op 2 makes it, op 3 reads it
  map.bytes = map.moved = 4 * mib;
  map.of = MapClass::swap;
  Plan plan = plan_of(profile, {map});
  plan.before = {{3, {{PlanAction::Kind::prefetch, 0}}}};
  plan.after = {{0, {{PlanAction::Kind::evict, 0}}}};
  const auto script = runtime::Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(script->life(3).away, 0);
  EXPECT_TRUE(script->life(3).returns.empty());
}

// All of it, of 16 MiB by then; without actions.
Plan swap_second_map(PhaseProfile& profile) {
  PlanMap map;
  map.buffer = 1;
  map.bytes = map.moved = 16 * mib;
  map.of = MapClass::swap;
  profile.buffers[1].bytes = profile.versions[1].bytes = map.bytes;
  return plan_of(profile, {map});
}

TEST(PlannedScripts, EachPieceOfAMapIsBackWithItsOwnPrefetch) {
  PhaseProfile profile = two_maps();
  Plan plan = swap_second_map(profile);
  plan.before = {{2, {{PlanAction::Kind::prefetch, 0, 6 * mib}}}, {4, {{PlanAction::Kind::prefetch, 0}}}};
  plan.after = {{1, {{PlanAction::Kind::evict, 0}}}};
  const double us_per_byte = 1e-3;
  const auto script = runtime::Script::compile(plan, test::with_operands(profile), us_per_byte);
  ASSERT_TRUE(script) << script.error().message;
  const runtime::ScriptLife& life = script->life(1);
  EXPECT_EQ(life.back, 2);
  EXPECT_EQ(life.step_back(6 * mib), 2);
  EXPECT_EQ(life.step_back(8 * mib), 4);
  EXPECT_EQ(life.step_back(16 * mib), 4);
  EXPECT_DOUBLE_EQ(script->away_us(1, 16 * mib) - script->away_us(1, 6 * mib), 10 * mib * us_per_byte);
  EXPECT_DOUBLE_EQ(life.back_us(8 * mib, 16 * mib), script->step_start_us(4)) << "nothing else is known";
}

TEST(PlannedScripts, MemoryIsNeededWhenThePlanExpectsIt) {
  PhaseProfile profile = two_maps();
  Plan plan = swap_second_map(profile);
  const auto fetch = [](std::uint64_t up_to, double at_us) {
    return PlanAction{PlanAction::Kind::prefetch, 0, up_to, {}, PlanTime{at_us, 1000}};
  };
  plan.before = {{2, {fetch(6 * mib, 3000)}}, {4, {fetch(0, 9000)}}};
  plan.after = {{1, {{PlanAction::Kind::evict, 0, 0, {}, PlanTime{2000, 1600}}}}};
  plan.starts_us = {{2, 4000}, {4, 8000}};
  plan.predicted_ms = 20;
  const auto script = runtime::Script::compile(plan, test::with_operands(profile), 1e-3);
  ASSERT_TRUE(script) << script.error().message;
  const auto us = [&](int op) { return profile.ops[op].us + profile.ops[op].gap_us; };
  EXPECT_DOUBLE_EQ(script->start_us(2), us(0) + us(1)) << "without waits";
  EXPECT_DOUBLE_EQ(script->step_end_us(1), us(0) + us(1)) << "it ends before the next one waits";
  EXPECT_DOUBLE_EQ(script->step_start_us(2), 4000);
  EXPECT_DOUBLE_EQ(script->step_start_us(3), 4000 + us(2));
  EXPECT_DOUBLE_EQ(script->step_start_us(script->steps()), 20000);
  EXPECT_DOUBLE_EQ(script->away_us(1, 16 * mib), 3600);
  EXPECT_DOUBLE_EQ(script->away_us(1, 6 * mib), 2600);
  const runtime::ScriptLife& life = script->life(1);
  EXPECT_DOUBLE_EQ(life.back_us(0, 4 * mib), 3000) << "ahead of the op that waits for it";
  EXPECT_DOUBLE_EQ(life.back_us(3 * mib, 6 * mib), 3500);
  EXPECT_DOUBLE_EQ(life.back_us(6 * mib, 8 * mib), 9000);
  EXPECT_DOUBLE_EQ(life.back_us(11 * mib, 16 * mib), 9500);
}

}  // namespace
}  // namespace pooch
