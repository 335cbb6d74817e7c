// Where the maps of one iteration lie, and what of them is dropped. The script is of a chain: ops 0 to 3 make
// a map each, ops 4 to 7 read them in reverse order; the first map is dropped and made again.
#include "runtime/execution/iteration.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/support/chain.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 4, ops = 2 * maps;
constexpr std::uint64_t bytes = 2 * MiB;

Script dropping_the_first() {
  const PhaseProfile phase = test::chain_of(maps, 100);
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  plan.maps.push_back({0, "map 0", 0, bytes, MapClass::recompute, 0, {0}, "", 0, MapClass::keep, {}});
  plan.after[1].push_back({PlanAction::Kind::drop, 0});
  plan.before[ops - 1].push_back({PlanAction::Kind::replay, 0});
  auto script = Script::compile(plan, phase, 0);
  EXPECT_TRUE(script) << script.error().message;
  return std::move(*script);
}

class Nothing : public Replay {
 public:
  Status run(std::span<const Address>, StreamHandle) override { return Done{}; }
};

class IterationOfAChain : public ::testing::Test {
 protected:
  IterationOfAChain() {
    for (std::size_t map = 0; map < maps; ++map) {
      ranges[map].base = Address{GiB + map * bytes};
      ranges[map].bytes = bytes;
      ranges[map].chunks.resize(1);
      ids[map] = live.add(ranges[map].base, bytes, true, true).id;
    }
  }
  tracker::Operand operand(std::size_t map, Effect effect) {
    return {ids[map], ranges[map].base, 0, bytes, effect, true, 0, &ranges[map]};
  }
  void make(Iteration& iteration, std::int32_t position) {
    const auto one = operand(static_cast<std::size_t>(position), Effect::overwrite);
    iteration.bind(position, {&one, 1}, live);
    tracker::Op op;
    op.operands = {one};
    const Access access{one.base, bytes, one.effect};
    iteration.keep(position, {"work", OpKind::elementwise, StreamHandle::legacy, {&access, 1}}, op,
                   std::make_unique<Nothing>());
  }
  void drop(Iteration& iteration, std::size_t map) {
    iteration.maps[map].dropped = true;
    ++iteration.dropped;
  }

  const Script script = dropping_the_first();
  tracker::Allocations live;
  Range ranges[maps];
  AllocationId ids[maps];
};

TEST_F(IterationOfAChain, BeginsWhereTheProgramIs) {
  const Iteration first(script, 100, {}, 100), late(script, 100, {}, 103);
  EXPECT_TRUE(first.from_the_start);
  EXPECT_EQ(first.position, 0);
  EXPECT_FALSE(late.from_the_start);
  EXPECT_EQ(late.position, 3);
}

TEST_F(IterationOfAChain, OpsThatThePlanDoesNotKnowHaveNoPosition) {
  const Iteration iteration(script, 100, {.at = 2, .count = 3}, 100);
  EXPECT_EQ(iteration.position_of(101), 1);
  EXPECT_EQ(iteration.position_of(102), std::nullopt);
  EXPECT_EQ(iteration.position_of(104), std::nullopt);
  EXPECT_EQ(iteration.position_of(105), 2);
  EXPECT_EQ(iteration.passed(103), 2);
  EXPECT_EQ(Iteration(script, 100, {.at = 2, .count = 3}, 104).position, 2);
}

TEST_F(IterationOfAChain, TurnsOutToHaveOpsInBetweenOnlyAheadOfThem) {
  constexpr tracker::InsertedOps two{.at = 4, .count = 2};
  Iteration in_time(script, 100, {}, 100), back(script, 100, two, 100), late(script, 100, {}, 100);
  EXPECT_TRUE(in_time.turns_out(two, 104));
  EXPECT_EQ(in_time.inserted, two);
  EXPECT_TRUE(in_time.turns_out(two, 107)) << "as is known";
  EXPECT_TRUE(back.turns_out({}, 104));
  EXPECT_FALSE(late.turns_out(two, 105));
  EXPECT_FALSE(in_time.turns_out({}, 105));
}

TEST_F(IterationOfAChain, WritingWhatAKeptCallReadsOrWritesSpoilsItsReplay) {
  Iteration iteration(script, 0, {}, 0);
  make(iteration, 0);
  const auto reads = operand(0, Effect::read), writes = operand(0, Effect::overwrite),
             another = operand(1, Effect::overwrite);
  EXPECT_TRUE(iteration.spoils_replays({&writes, 1}));
  EXPECT_FALSE(iteration.spoils_replays({&reads, 1}));
  EXPECT_FALSE(iteration.spoils_replays({&another, 1}));
}

TEST_F(IterationOfAChain, AMapLiesWhereTheOpThatTouchesItFirstHasIt) {
  Iteration iteration(script, 0, {}, 0);
  make(iteration, 0);
  EXPECT_EQ(iteration.maps[0].range, &ranges[0]);
  EXPECT_EQ(ranges[0].chunks[0].name, "map 0");
}

TEST_F(IterationOfAChain, AnOperandWhoseAllocationHasEndedIsNowhere) {
  Iteration iteration(script, 0, {}, 2);
  (void)live.take(ranges[0].base);
  make(iteration, 0);
  EXPECT_EQ(iteration.maps[0].range, nullptr);
}

TEST_F(IterationOfAChain, WhatIsDroppedIsTouchedByItsOperandsAndFedByItsCalls) {
  Iteration iteration(script, 0, {}, 0);
  make(iteration, 0), make(iteration, 1);
  const auto dropped = operand(0, Effect::read), other = operand(1, Effect::read);
  EXPECT_FALSE(iteration.touches_dropped({&dropped, 1}));
  EXPECT_FALSE(iteration.feeds_dropped(ids[0]));
  drop(iteration, 0);
  EXPECT_TRUE(iteration.touches_dropped({&dropped, 1}));
  EXPECT_FALSE(iteration.touches_dropped({&other, 1}));
  EXPECT_TRUE(iteration.feeds_dropped(ids[0])) << "the replay writes there";
  EXPECT_FALSE(iteration.feeds_dropped(ids[1]));
  iteration.next_replay = 1;
  EXPECT_FALSE(iteration.feeds_dropped(ids[0])) << "the replay has been";
}

TEST_F(IterationOfAChain, WhatReplaysMakeIsKnownFromTheirCalls) {
  Iteration iteration(script, 0, {}, 0);
  EXPECT_EQ(iteration.kept_for(script.replays()[0]), nullptr);
  EXPECT_TRUE(iteration.extents_made(0).empty());
  make(iteration, 0);
  ASSERT_NE(iteration.kept_for(script.replays()[0]), nullptr);
  EXPECT_EQ(iteration.kept_for(script.replays()[0])->operand_of, std::vector<std::uint32_t>{0});
  EXPECT_EQ(iteration.extents_made(0), (Verification::Extents{{0, bytes}}));
}

TEST_F(IterationOfAChain, WhatWaitsForItsFetchIsAwaitedByItsReaders) {
  Iteration iteration(script, 0, {}, 0);
  make(iteration, 0), make(iteration, 1);
  iteration.pending = {{.map = 0}};
  const auto waits = operand(0, Effect::read), does_not = operand(1, Effect::read);
  EXPECT_TRUE(iteration.awaits_fetch({&waits, 1}));
  EXPECT_FALSE(iteration.awaits_fetch({&does_not, 1}));
}

TEST_F(IterationOfAChain, AnAllocationThatEndsTakesItsMapAlong) {
  Iteration iteration(script, 0, {}, 0);
  make(iteration, 0);
  drop(iteration, 0);
  std::vector<std::uint32_t> forgotten;
  iteration.end(ids[1], [&](std::uint32_t map) { forgotten.push_back(map); });
  EXPECT_TRUE(forgotten.empty());
  iteration.end(ids[0], [&](std::uint32_t map) { forgotten.push_back(map); });
  EXPECT_EQ(forgotten, std::vector<std::uint32_t>{0});
  EXPECT_EQ(iteration.dropped, 0u);
  EXPECT_EQ(iteration.maps[0].range, nullptr);
}

TEST_F(IterationOfAChain, WhatIsAwayAtTheBeginningIsWhereItWas) {
  PhaseProfile phase = test::chain_of(maps, 100);
  phase.buffers[3].from = phase.buffers[3].until = outside;
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  PlanMap map;
  map.buffer = 3;
  map.bytes = map.moved = bytes;
  map.of = MapClass::swap;
  map.across = true;
  plan.maps = {map};
  plan.before[2] = {{PlanAction::Kind::prefetch, 0}};
  plan.after[4] = {{PlanAction::Kind::evict, 0}};
  const auto script = Script::compile(plan, phase, 0);
  ASSERT_TRUE(script) << script.error().message;
  std::vector<Address> bases;
  for (std::size_t each = 0; each < maps; ++each) {
    bases.push_back(ranges[each].base);
    live.set_backing(ranges[each].base, &ranges[each]);
  }
  Iteration iteration(*script, 0, {}, 0);
  iteration.bind_what_is_away({}, live);
  EXPECT_EQ(iteration.maps[0].range, nullptr) << "nobody knows where";
  iteration.bind_what_is_away(bases, live);
  EXPECT_EQ(iteration.maps[0].range, &ranges[3]);
  EXPECT_EQ(iteration.maps[0].allocation, ids[3]);
  Iteration other(*script, 0, {}, 0);
  bases[3] = Address{64 * GiB};
  other.bind_what_is_away(bases, live);
  EXPECT_EQ(other.maps[0].range, nullptr) << "nothing is there";
}

}  // namespace
}  // namespace pooch::runtime
