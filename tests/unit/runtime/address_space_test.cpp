#include "runtime/memory/address_space.h"

#include <gtest/gtest.h>

namespace pooch::runtime {
namespace {

TEST(AddressSpace, HandsOutTheLowestFreeRangeOfExactlyThatSize) {
  AddressSpace space(Address{0}, 100 * MiB);
  const Address a = *space.allocate(4 * MiB), b = *space.allocate(4 * MiB), c = *space.allocate(6 * MiB);
  space.free(b);
  space.free(a);
  EXPECT_NE(*space.allocate(2 * MiB), a) << "a range is never split";
  EXPECT_EQ(*space.allocate(4 * MiB), a);
  EXPECT_EQ(*space.allocate(4 * MiB), b);
  EXPECT_TRUE(space.contains(c));
  EXPECT_FALSE(space.contains(Address{100 * MiB}));
}

TEST(AddressSpace, CoalescedRangesServeOtherSizes) {
  AddressSpace space(Address{0}, 12 * MiB);
  const Address a = *space.allocate(4 * MiB), b = *space.allocate(4 * MiB), c = *space.allocate(4 * MiB);
  EXPECT_FALSE(space.allocate(2 * MiB));
  space.free(a);
  space.free(b);
  EXPECT_FALSE(space.allocate(8 * MiB));
  space.coalesce({{a, 4 * MiB}, {b, 4 * MiB}});
  EXPECT_EQ(*space.allocate(6 * MiB), a);
  EXPECT_EQ(*space.allocate(2 * MiB), a + 6 * MiB);
  EXPECT_FALSE(space.allocate(2 * MiB));
  (void)c;
}

TEST(AddressSpace, NothingLiesInTheGapBehindARange) {
  AddressSpace space(Address{0}, 16 * MiB, 2 * MiB);
  EXPECT_EQ(space.allocate(4 * MiB), Address{0});
  EXPECT_EQ(space.allocate(4 * MiB), Address{6 * MiB});
  EXPECT_EQ(space.allocate(4 * MiB), std::nullopt);  // 4 MiB are left, and no gap
  for (const std::uint64_t base : {0, 6}) space.free(Address{base * MiB});
  space.coalesce({{Address{0}, 4 * MiB}, {Address{6 * MiB}, 4 * MiB}});
  EXPECT_EQ(space.allocate(10 * MiB), Address{0});
}

TEST(AddressSpace, WhatPiecesTakeBehindARangeIsLeftToIt) {
  constexpr std::uint64_t piece = 64 * MiB;
  AddressSpace space(Address{0}, 1 * GiB, 2 * MiB, piece);
  EXPECT_EQ(space.allocate(254 * MiB), Address{0});
  EXPECT_EQ(space.allocate(64 * MiB), Address{256 * MiB + 2 * MiB}) << "four pieces of 64 MiB, and the gap";
  EXPECT_EQ(space.allocate(2 * MiB), Address{322 * MiB + 2 * MiB});
}

TEST(AddressSpace, AStreamGetsItsOwnRangesBack) {
  AddressSpace space(Address{0}, 100 * MiB);
  const StreamHandle loader{7}, compute{8};
  const Address a = *space.allocate(4 * MiB, compute), b = *space.allocate(4 * MiB, loader);
  space.free(a);
  space.free(b);
  EXPECT_EQ(*space.allocate(4 * MiB, loader), b);
  EXPECT_NE(*space.allocate(4 * MiB, loader), a) << "compute may still be at work on it";
  space.disown(compute);
  EXPECT_EQ(*space.allocate(4 * MiB), a) << "a stream that is gone leaves its ranges to all";
  space.free(a);
  space.free(b);
  space.disown(loader);
  EXPECT_EQ(*space.allocate(4 * MiB), a);
  EXPECT_EQ(*space.allocate(4 * MiB), b);
}

TEST(AddressSpace, WhatAnotherStreamFreedLastIsKeptBack) {
  AddressSpace space(Address{0}, 12 * MiB);
  const StreamHandle loader{7}, compute{8};
  const Address a = *space.allocate(4 * MiB, loader);
  space.free(a, compute);
  const Address b = *space.allocate(4 * MiB, loader);
  EXPECT_NE(b, a);
  for (int i = 0; i < 3; ++i) {
    space.free(i % 2 ? a : b, compute);
    EXPECT_EQ(*space.allocate(4 * MiB, loader), i % 2 ? b : a) << "two in turn";
  }
  (void)*space.allocate(4 * MiB, loader);
  EXPECT_EQ(*space.allocate(4 * MiB, loader), b) << "the arena has no other";
  space.free(b, compute);
  space.coalesce({{b, 4 * MiB}});
  EXPECT_EQ(*space.allocate(2 * MiB, compute), b);
}

}  // namespace
}  // namespace pooch::runtime
