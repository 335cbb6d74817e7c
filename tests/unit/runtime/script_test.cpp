#include "runtime/script/script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/chain.h"
#include "tests/support/random_profile.h"

namespace pooch::runtime {
namespace {

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
  const auto script = Script::compile(plan, phase, 0);
  return script ? "" : script.error().message;
}

TEST(Script, NothingMayReadWhatIsGone) {
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
TEST(Script, WhatPassesThroughTemporaryMemoryNeedsNothingThatCameBackBefore) {
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
  const auto script = Script::compile(plan, phase, 0);
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

TEST(Script, ABriefMapIsBackWithTheLastReplaysThatMakeIt) {
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
  const auto script = Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(script) << script.error().message;
  ASSERT_EQ(script->replays().size(), 3u);
  EXPECT_TRUE(script->replays()[0].restores.empty()) << "for B alone";
  EXPECT_EQ(script->replays()[1].restores, (std::vector<std::uint32_t>{1}));
  EXPECT_EQ(script->replays()[2].restores, (std::vector<std::uint32_t>{0}));
  EXPECT_EQ(script->life(1).back, 4);
  ASSERT_EQ(script->slots().size(), 1u);
  EXPECT_EQ(script->slots()[0].held, (std::pair<std::int32_t, std::int32_t>{3, 3}));

  plan.maps[0].brief = false;
  const auto lasting = Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(lasting) << lasting.error().message;
  EXPECT_EQ(lasting->life(1).back, 3);
}

// Op 3 reads A, which is freed then; op 4 reads B, which is made of A.
TEST(Script, ABriefMapThatIsMadeAgainOnceItIsFreedIsBackForItsReader) {
  PhaseProfile profile = two_maps();
  profile.buffers[1].until = 4;
  profile.versions[1].readers = {1, 3}, profile.versions[2].readers = {2, 4};
  profile.ops.clear();
  add_ops(profile, {{{0}, {1}}, {{1}, {2}}, {{2}, {3}}, {{1, 3}, {}}, {{2}, {}}});
  PlanMap a, b;
  a.map = 0, a.buffer = 1, a.by = {0}, a.brief = true;
  b.map = 1, b.buffer = 2, b.by = {1};
  a.bytes = b.bytes = 4 * mib;
  a.of = b.of = MapClass::recompute;
  Plan plan = plan_of(profile, {a, b});
  const PlanAction first{PlanAction::Kind::replay, 0}, second{PlanAction::Kind::replay, 1};
  plan.before = {{3, {first}}, {4, {first, second}}};
  plan.after = {{1, {{PlanAction::Kind::drop, 0}}}, {2, {{PlanAction::Kind::drop, 1}}}};
  const auto script = Script::compile(plan, test::with_operands(profile), 0);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(script->life(1).back, 3);
  EXPECT_TRUE(script->replays()[1].restores.empty()) << "for B alone";
}

TEST(Script, AMapThatIsToLeaveBeforeItIsThereStays) {
  const PhaseProfile profile = two_maps();
  PlanMap map;
  map.buffer = 3;  // op 2 makes it, op 3 reads it
  map.bytes = map.moved = 4 * mib;
  map.of = MapClass::swap;
  Plan plan = plan_of(profile, {map});
  plan.before = {{3, {{PlanAction::Kind::prefetch, 0}}}};
  plan.after = {{0, {{PlanAction::Kind::evict, 0}}}};
  const auto script = Script::compile(plan, test::with_operands(profile), 0);
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

TEST(Script, EachPieceOfAMapIsBackWithItsOwnPrefetch) {
  PhaseProfile profile = two_maps();
  Plan plan = swap_second_map(profile);
  plan.before = {{2, {{PlanAction::Kind::prefetch, 0, 6 * mib}}}, {4, {{PlanAction::Kind::prefetch, 0}}}};
  plan.after = {{1, {{PlanAction::Kind::evict, 0}}}};
  const double us_per_byte = 1e-3;
  const auto script = Script::compile(plan, test::with_operands(profile), us_per_byte);
  ASSERT_TRUE(script) << script.error().message;
  const ScriptLife& life = script->life(1);
  EXPECT_EQ(life.back, 2);
  EXPECT_EQ(life.step_back(6 * mib), 2);
  EXPECT_EQ(life.step_back(8 * mib), 4);
  EXPECT_EQ(life.step_back(16 * mib), 4);
  EXPECT_DOUBLE_EQ(script->away_us(1, 16 * mib) - script->away_us(1, 6 * mib), 10 * mib * us_per_byte);
  EXPECT_DOUBLE_EQ(life.back_us(8 * mib, 16 * mib), script->step_start_us(4)) << "nothing else is known";
}

TEST(Script, MemoryIsNeededWhenThePlanExpectsIt) {
  PhaseProfile profile = two_maps();
  Plan plan = swap_second_map(profile);
  const auto fetch = [](std::uint64_t up_to, double at_us) {
    return PlanAction{PlanAction::Kind::prefetch, 0, up_to, {}, PlanTime{at_us, 1000}};
  };
  plan.before = {{2, {fetch(6 * mib, 3000)}}, {4, {fetch(0, 9000)}}};
  plan.after = {{1, {{PlanAction::Kind::evict, 0, 0, {}, PlanTime{2000, 1600}}}}};
  plan.starts_us = {{2, 4000}, {4, 8000}};
  plan.predicted_ms = 20;
  const auto script = Script::compile(plan, test::with_operands(profile), 1e-3);
  ASSERT_TRUE(script) << script.error().message;
  const auto us = [&](int op) { return profile.ops[op].us + profile.ops[op].gap_us; };
  EXPECT_DOUBLE_EQ(script->step_end_us(1), us(0) + us(1)) << "it ends before the next one waits";
  EXPECT_DOUBLE_EQ(script->step_start_us(2), 4000);
  EXPECT_DOUBLE_EQ(script->step_start_us(3), 4000 + us(2));
  EXPECT_DOUBLE_EQ(script->step_start_us(script->steps()), 20000);
  EXPECT_DOUBLE_EQ(script->away_us(1, 16 * mib), 3600);
  EXPECT_DOUBLE_EQ(script->away_us(1, 6 * mib), 2600);
  const ScriptLife& life = script->life(1);
  EXPECT_DOUBLE_EQ(life.back_us(0, 4 * mib), 3000) << "ahead of the op that waits for it";
  EXPECT_DOUBLE_EQ(life.back_us(3 * mib, 6 * mib), 3500);
  EXPECT_DOUBLE_EQ(life.back_us(6 * mib, 8 * mib), 9000);
  EXPECT_DOUBLE_EQ(life.back_us(11 * mib, 16 * mib), 9500);
}

// Op 1 of two_maps() has this buffer too; its result, B, is dropped and made again before op 3.
struct Beside {
  PhaseProfile phase = two_maps();
  std::uint32_t buffer = 0;
  Plan plan;

  explicit Beside(const ProfileBuffer& more) {
    buffer = static_cast<std::uint32_t>(phase.buffers.size());
    phase.buffers.push_back(more);
    PlanMap map;
    map.buffer = 2;
    map.bytes = 4 * mib;
    map.of = MapClass::recompute;
    map.by = {1};
    plan.maps = {map};
    plan.before[3] = {{PlanAction::Kind::replay, 1}};
    plan.after[2] = {{PlanAction::Kind::drop, 0}};
  }
  std::uint32_t add_version(ProfileVersion version) {
    version.buffer = buffer;
    phase.versions.push_back(std::move(version));
    return static_cast<std::uint32_t>(phase.versions.size() - 1);
  }
  Result<Script> compile() {
    const PhaseProfile all = test::with_operands(phase);
    plan.phase = all.id;
    plan.structure = structure_of(all);
    return Script::compile(plan, all, 0);
  }
  std::string refusal() {
    const auto script = compile();
    return script ? "" : script.error().message;
  }
  // Where the replay has that buffer.
  ReplayPlace place() {
    const auto script = compile();
    EXPECT_TRUE(script) << script.error().message;
    const std::vector<std::uint32_t> operands = test::with_operands(phase).ops[1].operands;
    const auto at = std::find(operands.begin(), operands.end(), buffer) - operands.begin();
    return script->replays().at(0).operands.at(static_cast<std::size_t>(at));
  }
};
using Kind = ReplayPlace::Kind;

TEST(Script, IsForOnePhaseOfOneStructure) {
  PhaseProfile phase = test::with_operands(two_maps());
  const Plan good = [&] {
    Plan plan = swap_second_map(phase);
    plan.before = {{4, {{PlanAction::Kind::prefetch, 0}}}};
    plan.after = {{1, {{PlanAction::Kind::evict, 0}}}};
    return plan;
  }();
  const auto refusal = [&](const auto& change) {
    Plan plan = good;
    change(plan);
    const auto script = Script::compile(plan, phase, 0);
    return script ? "" : script.error().message;
  };
  EXPECT_EQ(refusal([](Plan&) {}), "");
  EXPECT_EQ(refusal([](Plan& plan) { plan.phase = "a0"; }), "plan: is of phase a0, not 9f33");
  EXPECT_EQ(refusal([](Plan& plan) { plan.structure = "b1"; }),
            "plan: was made for structure 'b1'; the phase has " + structure_of(phase));
  EXPECT_EQ(refusal([](Plan& plan) {
              plan.before = {{5, {{PlanAction::Kind::prefetch, 0}}}};
            }),
            "plan: acts beyond the phase's 5 ops");
  EXPECT_EQ(refusal([](Plan& plan) { plan.maps[0].buffer = 4; }), "plan: map 0 is no managed buffer");
  EXPECT_EQ(refusal([](Plan& plan) { plan.before.clear(); }),
            "plan: /maps/0 is of class swap, but leaves 1 times and is not fetched whole: one eviction, and "
            "prefetches of all of it");
  phase.buffers[1].managed = false;
  EXPECT_EQ(refusal([&](Plan& plan) { plan.structure = structure_of(phase); }),
            "plan: map 0 is no managed buffer");
}

TEST(Script, AReplayUsesTheProgramsWorkspaceWhereNobodyElseCould) {
  const auto workspace = [](std::int32_t from, std::int32_t until) {
    Beside all({2 * mib, true, from, until});
    all.phase.ops[1].scratch = {all.buffer};
    return all;
  };
  EXPECT_EQ(workspace(outside, outside).place().kind, Kind::original);
  EXPECT_EQ(workspace(1, 4).place().kind, Kind::original);
  EXPECT_EQ(workspace(1, 3).place().kind, Kind::temporary) << "it is freed by then";
  Beside streams = workspace(outside, outside);
  streams.phase.ops[4].stream = 1;
  EXPECT_EQ(streams.place().kind, Kind::temporary) << "the other stream may be at work in it";
  Beside content = workspace(outside, outside);
  content.phase.ops[2].writes.push_back(content.add_version({0, 0, 2 * mib, 2, {4}, Role::activation}));
  content.phase.ops[4].reads.push_back(content.phase.ops[2].writes.back());
  EXPECT_EQ(content.place().kind, Kind::temporary) << "it serves for something else as well";
}

TEST(Script, SmallTemporariesOfAReplayLieSideBySide) {
  Beside all({1000, false, 1, 2});
  all.phase.buffers.push_back({300, false, 1, 2});
  all.phase.ops[1].scratch = {all.buffer, all.buffer + 1};
  const auto script = all.compile();
  ASSERT_TRUE(script) << script.error().message;
  ASSERT_EQ(script->slots().size(), 2u);
  EXPECT_TRUE(script->slots()[0].small && script->slots()[1].small);
  EXPECT_EQ(script->slots()[0].offset, 0u);
  EXPECT_EQ(script->slots()[1].offset, 1024u);
  EXPECT_EQ(script->small_bytes(), 1536u);
  EXPECT_EQ(script->replays()[0].ends, (std::vector<std::uint32_t>{0, 1}));
}

// Running statistics are read and written by the one op; who replays it must not count the batch twice.
TEST(Script, AReplayLeavesRunningStatisticsAlone) {
  Beside all({4 * mib, true});
  const std::uint32_t before = all.add_version({0, 0, 4 * mib, outside, {1}, Role::parameter}),
                      after = all.add_version({0, 0, 4 * mib, 1, {}, Role::parameter});
  all.phase.ops[1].reads.push_back(before);
  all.phase.ops[1].writes.push_back(after);
  all.phase.ops[1].kind = OpKind::batch_norm_forward;
  EXPECT_EQ(all.place().kind, Kind::temporary);
  all.phase.ops[1].kind = OpKind::elementwise;
  EXPECT_EQ(all.refusal(), "plan: the replay of op 1 before op 3 reads what is gone");
}

TEST(Script, AReplayDoesNotTouchMemoryThatIsFreed) {
  Beside all({2 * mib, true, 0, 3});
  PhaseProfile phase = test::with_operands(all.phase);
  phase.ops[1].operands.push_back(all.buffer);  // neither read nor written
  all.plan.phase = phase.id;
  all.plan.structure = structure_of(phase);
  EXPECT_EQ(Script::compile(all.plan, phase, 0).error().message,
            "plan: the replay of op 1 before op 3 uses memory that is freed");
  phase.buffers[all.buffer].until = 4;
  all.plan.structure = structure_of(phase);
  EXPECT_TRUE(Script::compile(all.plan, phase, 0));
}

// Op 1 reads two halves of a buffer, of which one was made again, elsewhere.
TEST(Script, AReplayFindsEachOfItsBuffersInOnePlace) {
  Beside all({4 * mib, true, 0, 5});
  const std::uint32_t first = all.add_version({0, 0, 2 * mib, 0, {1}, Role::activation}),
                      second = all.add_version({0, 2 * mib, 2 * mib, outside, {1}, Role::parameter});
  all.phase.ops[0].writes.push_back(first);
  all.phase.ops[1].reads.insert(all.phase.ops[1].reads.end(), {first, second});
  EXPECT_EQ(all.refusal(), "");
  all.plan.before[3].insert(all.plan.before[3].begin(), {PlanAction::Kind::replay, 0});
  EXPECT_EQ(all.refusal(), "plan: the replay of op 1 before op 3 reads one buffer in two places");
}

TEST(Script, ACopyOfTheProgramsFindsAMapThatIsBack) {
  Beside all({2 * mib, true});
  ProfileCopy copy;
  copy.before = 3;
  copy.bytes = 4 * mib;
  copy.version = 2;
  all.phase.copies = {copy};
  EXPECT_EQ(all.refusal(), "plan: op 3 needs map 0, which is not whole by then");
  all.phase.copies[0].before = 4;
  EXPECT_EQ(all.refusal(), "");
  all.phase.copies[0].version.reset();  // of whatever it is
  all.phase.copies[0].before = 3;
  EXPECT_EQ(all.refusal(), "");
}

TEST(Script, AMapIsNotMadeAgainOverWhatTheProgramCopiedIntoIt) {
  Beside all({2 * mib, true});
  // Op 4 reads what is copied into B before it, so B is made again for op 3 alone.
  all.phase.versions.push_back({2, 0, 4 * mib, outside, {4}, Role::input});
  all.phase.ops[4].reads.push_back(static_cast<std::uint32_t>(all.phase.versions.size() - 1));
  ProfileCopy copy;
  copy.before = 4;
  copy.to_device = true;
  copy.version = static_cast<std::uint32_t>(all.phase.versions.size() - 1);
  all.phase.copies = {copy};
  EXPECT_EQ(all.refusal(), "");
  all.plan.before[4] = all.plan.before[3];
  all.plan.before.erase(3);
  EXPECT_EQ(all.refusal(), "plan: op 3 needs map 0, which is not whole by then");
}

// Op 1 makes the first half of it, op 2 the second, and the next iteration reads all.
TEST(Script, WhatTheNextIterationFindsIsBackAtTheEnd) {
  Beside all({4 * mib, true});
  (void)all.add_version({0, 0, 4 * mib, outside, {0}, Role::parameter});
  const std::uint32_t first = all.add_version({0, 0, 2 * mib, 1, {}, Role::parameter}),
                      second = all.add_version({0, 2 * mib, 2 * mib, 2, {}, Role::parameter});
  all.phase.ops[0].reads.push_back(first - 1);
  all.phase.ops[1].writes.push_back(first);
  all.phase.ops[2].writes.push_back(second);
  all.plan.maps[0].buffer = all.buffer;
  all.plan.maps[0].by = {1, 2};
  const PlanAction one{PlanAction::Kind::replay, 1}, two{PlanAction::Kind::replay, 2};
  all.plan.before = {{3, {one, two}}};
  EXPECT_EQ(all.refusal(), "");
  all.plan.before = {{3, {one}}, {4, {two}}};
  EXPECT_EQ(all.refusal(), "plan: op 5 needs map 0, which is not whole by then");
}

TEST(Script, ASubstituteReplaysThroughTheOpThatWorksInPlace) {
  PhaseProfile phase = test::with_operands(in_place_phase());
  phase.ops[0].substitute = ProfileSubstitute{{0}, {2}, 1, Clip::drops_nan, Formula::one_fma, 0.25};
  PlanMap map;
  map.buffer = 1;
  map.bytes = 4 * mib;
  map.of = MapClass::recompute;
  map.by = {0};
  Plan plan = plan_of(phase, {map});
  plan.before[4] = {{PlanAction::Kind::replay, 0, 0, Formula::one_fma}};
  plan.after[2] = {{PlanAction::Kind::drop, 0}};
  const auto script = Script::compile(plan, phase, 0);
  ASSERT_TRUE(script) << script.error().message;
  ASSERT_EQ(script->replays().size(), 1u);
  EXPECT_EQ(script->replays()[0].formula, Formula::one_fma);
  EXPECT_EQ(script->replays()[0].clip, Clip::drops_nan);
  EXPECT_EQ(script->through(1).of, 0);
  EXPECT_EQ(script->through(1).clip, Clip::drops_nan);
  EXPECT_EQ(script->through(2).of, outside);
  const std::int32_t step = script->step_of_replay(0);
  EXPECT_DOUBLE_EQ(script->step_end_us(step) - script->step_start_us(step), 0.25);

  phase.ops[0].substitute.reset();
  plan.structure = structure_of(phase);
  EXPECT_EQ(Script::compile(plan, phase, 0).error().message,
            "plan: op 4 needs map 0, which is not whole by then")
      << "where nothing is known of it the call is made, and that makes what was there before op 1";
}

TEST(Script, WhatMustArriveByTheEndIsFetchedInTimeForItsCopy) {
  PhaseProfile phase = two_maps();
  for (ProfileOp& op : phase.ops) op.us = 100;
  const Plan plan = plan_of(phase, {});
  const auto step = [&](double us_of_copy) {
    return Script::compile(plan, test::with_operands(phase), us_of_copy / (4 * mib))->step_before_end(1);
  };
  EXPECT_EQ(step(0), 4);
  EXPECT_EQ(step(70), 4);
  EXPECT_EQ(step(80), 3) << "with time to spare";
  EXPECT_EQ(step(1e6), 0);
}

// Gradients: made by op 8, gone when op 3 of the next iteration is about to be computed.
TEST(Script, WhatOutlivesAnIterationIsStillThereAtTheBeginningOfTheNext) {
  PhaseProfile phase = test::chain_of(6, 100);
  const auto made = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({4 * mib, true, 8, outside});
  phase.buffers.push_back({4 * mib, true, outside, 3});
  phase.buffers.push_back({6 * mib, true, outside, 5});  // another's
  phase.versions.push_back({made, 0, 4 * mib, 8, {}, Role::gradient});
  phase.ops[8].writes.push_back(static_cast<std::uint32_t>(phase.versions.size() - 1));
  phase.ops[8].operands.push_back(made);
  const auto script = Script::compile(plan_of(phase, {}), phase, 0);
  ASSERT_TRUE(script) << script.error().message;
  const ScriptLife& life = script->life(made);
  EXPECT_TRUE(life.lasts);
  EXPECT_EQ(life.from, 0);
  EXPECT_EQ(life.away, 3);
  EXPECT_EQ(life.back, 8);
  EXPECT_EQ(life.to, script->positions() - 1);
  EXPECT_EQ(life.moved, 4 * mib);
}

// A state that ops 4 and 5 use, and the latter writes if it is told to; the plan of a swap with these
// positions. A byte takes 1 us on its way out.
Script with_state(std::int32_t fetched, std::int32_t evicted, bool written = true) {
  PhaseProfile phase = test::chain_of(4, 100);
  const auto state = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({4 * mib, true, outside, outside});
  phase.versions.push_back({state, 0, 4 * mib, outside, {4, 5}, Role::parameter});
  for (const std::int32_t p : {4, 5}) {
    phase.ops[p].reads.push_back(static_cast<std::uint32_t>(phase.versions.size() - 1));
    phase.ops[p].operands.push_back(state);
  }
  if (written) {
    phase.ops[5].writes.push_back(static_cast<std::uint32_t>(phase.versions.size()));
    phase.versions.push_back({state, 0, 4 * mib, 5, {}, Role::parameter});
  }
  PlanMap map;
  map.buffer = state;
  map.bytes = map.moved = 4 * mib;
  map.of = MapClass::swap;
  map.across = true;
  Plan plan = plan_of(phase, {map});
  plan.before[fetched] = {{PlanAction::Kind::prefetch, 0}};
  plan.after[evicted] = {{PlanAction::Kind::evict, 0}};
  auto script = Script::compile(plan, phase, 1);
  EXPECT_TRUE(script) << script.error().message;
  return std::move(*script);
}

TEST(Script, WhatIsAwayAcrossTheEndIsThereFromItsFetchToItsLastUse) {
  const Script script = with_state(3, 5);
  const ScriptLife& life = script.life(4);
  EXPECT_TRUE(life.across);
  EXPECT_EQ(life.back, 3);
  EXPECT_EQ(life.away, 6);
  ASSERT_EQ(life.returns.size(), 1u);
  EXPECT_EQ(life.returns[0].position, 3);
}

TEST(Script, WhatNoIterationWritesLeavesAtOnce) {
  const Script read = with_state(3, 5, false), written = with_state(3, 5);
  const double used_us = read.step_end_us(read.step_of_op(5));
  EXPECT_EQ(read.life(4).away_us, used_us);
  EXPECT_EQ(written.life(4).away_us, used_us + 4 * mib);
}

TEST(Script, WhatIsNotFetchedEndsWhereItLeaves) {
  PhaseProfile phase = two_maps();
  phase.buffers[3].until = outside;  // op 2 makes it, op 3 reads it
  PlanMap map;
  map.buffer = 3;
  map.bytes = map.moved = 4 * mib;
  map.of = MapClass::swap;
  map.across = true;
  Plan plan = plan_of(phase, {map});
  plan.after = {{3, {{PlanAction::Kind::evict, 0}}}};
  const auto script = Script::compile(plan, test::with_operands(phase), 0);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(script->life(3).from, 2);
  EXPECT_EQ(script->life(3).to, 3);
  EXPECT_FALSE(script->life(3).lasts);
}

// Op 8 makes a gradient that outlives the iteration, which frees `earlier` before its op 3.
std::int32_t there_from(std::uint64_t earlier) {
  PhaseProfile phase = test::chain_of(6, 100);
  const auto made = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({4 * mib, true, 8, outside});
  phase.buffers.push_back({earlier, true, outside, 3});
  phase.versions.push_back({made, 0, 4 * mib, 8, {}, Role::gradient});
  phase.ops[8].writes.push_back(static_cast<std::uint32_t>(phase.versions.size()) - 1);
  phase.ops[8].operands.push_back(made);
  const auto script = Script::compile(plan_of(phase, {}), phase, 1);
  EXPECT_TRUE(script) << script.error().message;
  return script->life(made).from;
}

TEST(Script, WhatTheIterationBeforeMadeIsThereUntilThisOneFreesIt) {
  EXPECT_EQ(there_from(4 * mib), 0);
  EXPECT_EQ(there_from(2 * mib), 8) << "an iteration of another phase freed it";
}

// A gradient that leaves between backward and the step.
Result<Script> with_gradient(bool leaves_again) {
  static PhaseProfile phase;
  phase = test::chain_of(6, 100);
  const auto made = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({4 * mib, true, 8, outside});
  phase.buffers.push_back({4 * mib, true, outside, 3});
  phase.versions.push_back({made, 0, 4 * mib, 8, {10}, Role::gradient});
  phase.ops[8].writes.push_back(static_cast<std::uint32_t>(phase.versions.size() - 1));
  phase.ops[8].operands.push_back(made);
  phase.ops[10].reads.push_back(static_cast<std::uint32_t>(phase.versions.size() - 1));
  phase.ops[10].operands.push_back(made);
  PlanMap map;
  map.buffer = made;
  map.bytes = map.moved = 4 * mib;
  map.of = MapClass::swap;
  map.leaves_again = leaves_again;
  Plan plan = plan_of(phase, {map});
  plan.after[8] = {{PlanAction::Kind::evict, 0}};
  plan.before[10] = {{PlanAction::Kind::prefetch, 0}};
  return Script::compile(plan, phase, 0);
}
const ScriptLife& life_of_gradient(const Script& script) {
  return script.life(static_cast<std::uint32_t>(test::chain_of(6, 100).buffers.size()));
}

TEST(Script, WhatWasBroughtBackIsStillThereAtTheBeginningOfTheNextIteration) {
  const auto script = with_gradient(false);
  ASSERT_TRUE(script) << script.error().message;
  EXPECT_EQ(life_of_gradient(*script).from, 8);
  EXPECT_EQ(life_of_gradient(*script).lingers, 3);
  EXPECT_TRUE(life_of_gradient(*script).lasts);
  EXPECT_TRUE(script->after(10).empty());
}

TEST(Script, WhatLeavesAgainIsGoneAfterItsLastUse) {
  const auto script = with_gradient(true);
  ASSERT_TRUE(script) << script.error().message;
  const ScriptLife& life = life_of_gradient(*script);
  EXPECT_EQ(life.to, 10);
  EXPECT_EQ(life.away, 9) << "the first time";
  EXPECT_EQ(life.lingers, 0);
  EXPECT_FALSE(life.lasts);
  ASSERT_EQ(script->after(10).size(), 1u);
  EXPECT_EQ(script->after(10)[0].kind, PlanAction::Kind::evict);
  EXPECT_EQ(script->after(8).size(), 1u);
}

}  // namespace
}  // namespace pooch::runtime
