// What lies beside a layout while it is made and while it is followed.
#include "runtime/script/places.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

#include "core/pages.h"
#include "tests/support/chain.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 4;

class Beside : public testing::Test {
 protected:
  // A buffer of `bytes` that the iteration finds, and frees before the op at `until`.
  void add(std::uint64_t bytes, std::int32_t until) {
    phase_.buffers.push_back({bytes, true, outside, until, {}});
  }
  // Without the page for what is rounded. `alive`: allocations that are there.
  std::uint64_t most(const std::vector<std::uint64_t>& alive) {
    Plan plan;
    plan.phase = phase_.id;
    plan.structure = structure_of(phase_);
    const auto script = Script::compile(plan, phase_, 0);
    EXPECT_TRUE(script) << script.error().message;
    std::vector<ProfileRange> ranges{{2 * MiB, false}};  // the chain's own buffers have places
    for (const std::uint64_t bytes : alive) ranges.push_back({bytes, true});
    std::vector<PlacedPhase> phases{{&*script, &phase_, {}}};
    phases[0].ranges.resize(phase_.buffers.size());
    for (int map = 0; map < maps; ++map) phases[0].ranges[static_cast<std::size_t>(map)] = {0};
    return bytes_beside(places_of(phases, ranges, 1 << 30), phases, ranges) - page;
  }

  PhaseProfile phase_ = test::chain_of(maps, 100);
};

TEST_F(Beside, WhatIsThereAndNoBufferOfThePhaseIsThereAllTheTime) {
  EXPECT_EQ(most({2 * MiB, 6 * MiB}), 8 * MiB);
}

TEST_F(Beside, WhatTheIterationFreesMakesRoomForWhatItAllocatesLater) {
  add(4 * MiB, 2);
  phase_.buffers.push_back({4 * MiB, true, 3, outside, {}});
  EXPECT_EQ(most({4 * MiB}), 4 * MiB);
}

// It took its memory while the layout's was taken.
TEST_F(Beside, WhatIsFreedBeforeTheFirstOpIsThereWhileTheLayoutIsMade) {
  add(4 * MiB, 0);
  EXPECT_EQ(most({4 * MiB}), 4 * MiB);
  EXPECT_EQ(most({4 * MiB, 2 * MiB}), 6 * MiB);
}

// Maps 0 to 3 of the chain, and where they lie; map 0 leaves as the plan says.
class Placed : public testing::Test {
 protected:
  std::vector<Place> places(const Plan& plan, std::vector<std::vector<std::uint32_t>> ranges) {
    auto compiled = Script::compile(plan, phase_, 0);
    EXPECT_TRUE(compiled) << compiled.error().message;
    script_.emplace(std::move(*compiled));
    ranges.resize(phase_.buffers.size());
    return places_of({{&*script_, &phase_, std::move(ranges)}},
                     std::vector<ProfileRange>(5, ProfileRange{2 * MiB, false}), 1 << 30);
  }
  Plan plan() const {
    Plan plan;
    plan.phase = phase_.id;
    plan.structure = structure_of(phase_);
    return plan;
  }
  static PlanMap swapped(std::uint32_t buffer) {
    PlanMap map;
    map.buffer = buffer;
    map.bytes = map.moved = 2 * MiB;
    map.of = MapClass::swap;
    return map;
  }
  static std::pair<std::int32_t, std::int32_t> steps(const Stay& stay) {
    return {stay.span.from, stay.span.to};
  }

  PhaseProfile phase_ = test::chain_of(maps, 100);
  std::optional<Script> script_;
};

TEST_F(Placed, ABufferThatLiesInTwoRangesInTurnHasOnePlaceForBoth) {
  const auto all = places(plan(), {{0}, {1}, {2}, {4, 3}});
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3].range, 3u);
  EXPECT_EQ(all[3].twin, 4u);
  ASSERT_EQ(all[3].in[0].size(), 1u);
  EXPECT_EQ(steps(all[3].in[0][0]), (std::pair(3, 4)));
  EXPECT_EQ(all[0].twin, all[0].range);
}

TEST_F(Placed, TwoBuffersThatLieInEachOthersRangesHaveBoth) {
  const auto all = places(plan(), {{0}, {1}, {3, 4}, {4, 3}});
  ASSERT_EQ(all.size(), 4u);
  for (const std::size_t place : {2, 3}) {
    EXPECT_EQ(all[place].twin, all[place].range);
    EXPECT_EQ(steps(all[place].in[0][0]), (std::pair(2, 5)));
  }
}

TEST_F(Placed, ABufferInTurnWithContentAtTheBorderHasBoth) {
  phase_.buffers[3].until = outside;
  const auto all = places(plan(), {{0}, {1}, {2}, {3, 4}});
  ASSERT_EQ(all.size(), 5u);
  EXPECT_EQ(all[3].twin, 3u);
}

// A batch is copied to the one while the other is read.
TEST_F(Placed, ABufferInTurnThatIsFilledAheadOfTheIterationHasBoth) {
  const auto all = places(plan(), {{0, 4}, {1}, {2}, {3}});
  ASSERT_EQ(all.size(), 5u);
  for (const std::size_t place : {0, 4}) EXPECT_EQ(all[place].twin, all[place].range);
}

TEST_F(Placed, WhatIsAwayAcrossTheEndHasItsPlaceBetweenFetchAndLastUse) {
  const auto state = static_cast<std::uint32_t>(phase_.buffers.size());
  phase_.buffers.push_back({2 * MiB, true, outside, outside});
  phase_.ops[4].operands.push_back(state);
  PlanMap map = swapped(state);
  map.across = true;
  Plan moving = plan();
  moving.maps = {map};
  moving.before[2] = {{PlanAction::Kind::prefetch, 0}};
  moving.after[4] = {{PlanAction::Kind::evict, 0}};
  const auto all = places(moving, {{0}, {1}, {2}, {3}, {4}});
  ASSERT_EQ(all.size(), 5u);
  ASSERT_EQ(all[4].in[0].size(), 1u);
  EXPECT_EQ(steps(all[4].in[0][0]), (std::pair(2, 4)));
  EXPECT_FALSE(all[4].in[0][0].span.crosses);
}

TEST_F(Placed, WhatArrivesHasItsPlaceFromItsFetchUntilItIsFreed) {
  const auto gradient = static_cast<std::uint32_t>(phase_.buffers.size());
  phase_.buffers.push_back({2 * MiB, true, outside, 6});
  phase_.ops[4].operands.push_back(gradient);
  PlanMap map = swapped(gradient);
  map.across = true;
  Plan moving = plan();
  moving.maps = {map};
  moving.before[2] = {{PlanAction::Kind::prefetch, 0}};
  const auto all = places(moving, {{0}, {1}, {2}, {3}, {4}});
  ASSERT_EQ(all.size(), 5u);
  ASSERT_EQ(all[4].in[0].size(), 1u);
  EXPECT_EQ(steps(all[4].in[0][0]), (std::pair(2, 5)));
  EXPECT_FALSE(all[4].in[0][0].span.crosses);
}

// Op 6 makes what the next iteration finds as another buffer, in the same range.
TEST_F(Placed, WhatTheIterationBeforeLeftIsNotCountedTwice) {
  const auto made = static_cast<std::uint32_t>(phase_.buffers.size());
  phase_.buffers.push_back({2 * MiB, true, 6, outside});
  phase_.buffers.push_back({2 * MiB, true, outside, 2});
  phase_.buffers.push_back({2 * MiB, true, outside, 5});  // of the same size, elsewhere
  phase_.ops[6].operands.push_back(made);
  phase_.ops[1].operands.push_back(made + 1);
  const auto all = places(plan(), {{0}, {1}, {2}, {3}, {4}, {4}});
  ASSERT_EQ(all.size(), 5u);
  ASSERT_EQ(all[4].in[0].size(), 2u);
  EXPECT_EQ(steps(all[4].in[0][0]), (std::pair(0, 1)));
  EXPECT_EQ(steps(all[4].in[0][1]), (std::pair(6, 7)));
}

// One phase's gradient leaves again after the step, the other's stays until an iteration of the first frees
// it.
TEST_F(Placed, WhatLeavesAgainInOnePhaseIsLeftThereByAnother) {
  const auto made = static_cast<std::uint32_t>(phase_.buffers.size());
  phase_.buffers.push_back({2 * MiB, true, 3, outside});
  phase_.buffers.push_back({2 * MiB, true, outside, 2});
  for (const std::int32_t p : {3, 6}) phase_.ops[p].operands.push_back(made);
  PlanMap map = swapped(made);
  map.leaves_again = true;
  Plan leaving = plan();
  leaving.maps = {map};
  leaving.before[6] = {{PlanAction::Kind::prefetch, 0}};
  leaving.after[3] = {{PlanAction::Kind::evict, 0}};
  const auto first = Script::compile(leaving, phase_, 0), second = Script::compile(plan(), phase_, 0);
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(second) << second.error().message;
  const std::vector<std::vector<std::uint32_t>> at{{0}, {1}, {2}, {3}, {4}, {4}};
  const auto stays = [&](const std::vector<PlacedPhase>& phases) {
    std::vector<ProfileRange> ranges(5, {2 * MiB, true});
    std::vector<std::pair<std::int32_t, std::int32_t>> all;
    const std::vector<Place> places = places_of(phases, ranges, 1 << 30);
    for (const Stay& stay : places.at(4).in[0]) all.push_back(steps(stay));
    return all;
  };
  using Steps = std::vector<std::pair<std::int32_t, std::int32_t>>;
  EXPECT_EQ(stays({{&*first, &phase_, at}}), (Steps{{3, 3}, {6, 6}}));
  EXPECT_EQ(stays({{&*first, &phase_, at}, {&*second, &phase_, at}}), (Steps{{0, 1}, {3, 3}, {6, 6}}));
}

// Gradients are there until they are freed, whether anybody reads them or not.
TEST_F(Placed, WhatTheIterationBeforeLeftAndNobodyTouchesIsThereAllTheSame) {
  const auto made = static_cast<std::uint32_t>(phase_.buffers.size());
  phase_.buffers.push_back({2 * MiB, true, 6, outside});
  phase_.buffers.push_back({2 * MiB, true, outside, 2});
  phase_.ops[6].operands.push_back(made);
  const auto all = places(plan(), {{0}, {1}, {2}, {3}, {4}, {4}});
  ASSERT_EQ(all.size(), 5u);
  ASSERT_EQ(all[4].in[0].size(), 2u);
  EXPECT_EQ(steps(all[4].in[0][0]), (std::pair(0, 1)));
}

}  // namespace
}  // namespace pooch::runtime
