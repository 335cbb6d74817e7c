#include "runtime/execution/own_places.h"

#include <gtest/gtest.h>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t bytes = 4 * MiB;

// Iterations of a phase that makes one buffer before op 1 and frees it before op 2, where it makes another.
class Own : public testing::Test {
 protected:
  static constexpr std::uint64_t ops = 4;
  using When = AddressHabits::When;

  void SetUp() override {
    phase.index = tracker::PhaseIndex{3};
    const auto [first, second] = iterate();
    EXPECT_EQ(first, second) << "the second one's memory is the first one's";
    add(1, 2, first);
    add(2, 3, second);
  }
  void add(std::int32_t from, std::int32_t until, Address base, bool fixed = true) {
    phase.profile.buffers.push_back({bytes, true, from, until, {}});
    phase.bases.push_back(base);
    phase.earlier.push_back(base);
    phase.quiet.push_back(true);
    phase.fixed.push_back(fixed);
    phase.alternates.push_back(false);
  }
  std::pair<Address, Address> iterate() {
    start += ops;
    const auto first = space.allocate(bytes, {}, When{3, start, 1});
    space.free(*first);
    const auto second = space.allocate(bytes, {}, When{3, start, 2});
    space.free(*second);
    return {*first, *second};
  }

  test::LazyDevice device{512 * MiB};
  StreamOrder order{device};
  HandlePool pool{device, 64 * MiB};
  HostArena host{device, order, 64 * MiB};
  Residency residency{device, order, pool, host, *device.create_stream(), *device.create_stream()};
  AddressSpace space{Address{std::uint64_t{1} << 45}, 64 * 64 * MiB};
  OwnPlaces own{space, residency};
  KnownPhase phase;
  std::uint64_t start = 0;
};

TEST_F(Own, BuffersThatShareARangeInTurnHaveOneEach) {
  const std::vector<Range*> ranges = own.of(phase);
  ASSERT_EQ(ranges.size(), 2u);
  ASSERT_TRUE(ranges[0] && ranges[1]);
  EXPECT_NE(ranges[0], ranges[1]);
  for (const Range* range : ranges) {
    EXPECT_NE(range->base, phase.bases[0]);
    EXPECT_EQ(range->bytes, bytes);
    EXPECT_FALSE(range->in_use);
    EXPECT_TRUE(own.contains(*range));
  }
  EXPECT_EQ(pool.in_use(), 0u) << "addresses alone";
  EXPECT_EQ(own.of(phase), ranges);
}

TEST_F(Own, AllocationsGetThemWhileTheyAreOffered) {
  const std::vector<Range*> ranges = own.of(phase);
  const auto before = iterate();
  EXPECT_EQ(before.first, phase.bases[0]) << "not yet";
  own.offer({&phase});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(iterate(), std::pair(ranges[0]->base, ranges[1]->base));
  own.withdraw();
  EXPECT_EQ(iterate(), before);
}

TEST_F(Own, OneThatIsAloneThereKeepsItsRange) {
  (void)space.allocate(bytes);
  const auto other = space.allocate(bytes, {}, When{3, start, 3});
  add(3, 4, *other);
  EXPECT_EQ(own.of(phase)[2], nullptr);
}

TEST_F(Own, OneThatMovesHasARange) {
  const auto other = space.allocate(bytes, {}, When{3, start, 3});
  add(3, 4, *other, false);
  EXPECT_NE(own.of(phase)[2], nullptr);
}

TEST_F(Own, WhatOutlivesTheIterationStaysWhereItIs) {
  add(outside, 3, phase.bases[0]);
  add(1, outside, phase.bases[0]);
  const std::vector<Range*> ranges = own.of(phase);
  EXPECT_EQ(ranges[2], nullptr);
  EXPECT_EQ(ranges[3], nullptr);
}

TEST_F(Own, OneThatNobodySawAllocatedStaysWhereItIs) {
  add(3, 4, phase.bases[0]);
  EXPECT_EQ(own.of(phase)[2], nullptr);
}

TEST_F(Own, AfterTheyAreForgottenThereAreOthers) {
  const std::vector<Range*> ranges = own.of(phase);
  own.offer({&phase});
  own.forget();
  EXPECT_FALSE(own.contains(*ranges[0]));
  EXPECT_EQ(iterate().first, phase.bases[0]);
  EXPECT_NE(own.of(phase)[0], ranges[0]);
}

// A buffer that is allocated before op 1, of another size in each iteration.
class OwnOfAnySize : public Own {
 protected:
  void SetUp() override {
    phase.index = tracker::PhaseIndex{3};
    phase.any_size = true;
    add(1, 2, allocate(bytes));
    phase.profile.memory = {{1, 0, true}, {2, 0, false}};
  }
  Address allocate(std::uint64_t size) {
    start += ops;
    const auto address = space.allocate(size, {}, When{3, start, 1, 0});
    space.free(*address);
    return *address;
  }
};

TEST_F(OwnOfAnySize, ASmallerOneHasTheRangeOfTheLargest) {
  const Range* const range = own.of(phase)[0];
  ASSERT_NE(range, nullptr);
  own.offer({&phase});
  EXPECT_EQ(allocate(bytes), range->base);
  EXPECT_EQ(allocate(bytes / 2), range->base);
  EXPECT_EQ(allocate(bytes), range->base) << "it has not shrunk";
  EXPECT_NE(allocate(2 * bytes), range->base);
}

TEST_F(OwnOfAnySize, OneThatHasGrownGetsAnotherRange) {
  const Address before = own.of(phase)[0]->base;
  phase.profile.buffers[0].bytes = 2 * bytes;
  const Range* const range = own.of(phase)[0];
  ASSERT_NE(range, nullptr);
  EXPECT_NE(range->base, before);
  EXPECT_EQ(range->bytes, 2 * bytes);
  own.offer({&phase});
  EXPECT_EQ(allocate(2 * bytes), range->base);
}

}  // namespace
}  // namespace pooch::runtime
