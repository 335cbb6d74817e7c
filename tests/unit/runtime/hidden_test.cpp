#include "runtime/session/hidden.h"

#include <gtest/gtest.h>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

constexpr Address base{64 * MiB};

TEST(Stays, WhatSeveralNameIsLetGoByTheLast) {
  Stays stays;
  stays.name(base), stays.name(base);
  EXPECT_FALSE(stays.unname(base));
  EXPECT_TRUE(stays.unname(base));
}

TEST(Stays, WhatAnAddressInMemoryLeadsToStaysAsLongAsItLives) {
  Stays stays;
  stays.name(base);
  stays.reach(base);
  EXPECT_FALSE(stays.unname(base));
  stays.ended(base);
  stays.name(base);
  EXPECT_TRUE(stays.unname(base)) << "the next allocation there is another";
}

TEST(Stays, ARangeIsPinnedUntilItIsReleased) {
  Stays stays;
  Range range;
  range.chunks.resize(2);
  range.chunks[1].pins = 1;  // a call in flight
  stays.keep(range, 4 * MiB);
  EXPECT_TRUE(range.pinned);
  EXPECT_EQ(range.chunks[0].pins, 1);
  EXPECT_EQ(range.chunks[1].pins, 2);
  Stays::release(range);
  EXPECT_FALSE(range.pinned);
  EXPECT_EQ(range.chunks[0].pins, 0);
  EXPECT_EQ(range.chunks[1].pins, 1);
  EXPECT_EQ(stays.allocations(), 1u) << "counts are of the whole run";
  EXPECT_EQ(stays.bytes(), 4 * MiB);
}

TEST(SmallBuffers, AreLookedAtOnceEach) {
  SmallBuffers buffers;
  EXPECT_FALSE(buffers.due());
  buffers.note(base, 64), buffers.note(base + MiB, 32);
  buffers.ended(base + MiB);
  EXPECT_TRUE(buffers.due());
  EXPECT_EQ(buffers.take(), (SmallBuffers::Buffers{{base, 64}}));
  EXPECT_FALSE(buffers.due());
}

TEST(SmallBuffers, WhatCouldNotBeLookedAtIsAsItWasNotedSince) {
  SmallBuffers buffers;
  buffers.note(base, 64);
  (void)buffers.take();
  buffers.note(base, 128);
  buffers.note_again(base, 64);
  EXPECT_EQ(buffers.take(), (SmallBuffers::Buffers{{base, 128}}));
}

TEST(SmallBuffers, ThereIsAnEndToLooks) {
  SmallBuffers buffers;
  int looks = 0;
  for (buffers.note(base, 64); buffers.due(); buffers.note(base, 64), ++looks) (void)buffers.take();
  EXPECT_EQ(looks, 64);
  SmallBuffers others;
  others.note(base, 64);
  others.give_up();
  EXPECT_FALSE(others.due());
}

TEST(SmallBuffers, ThreadsThatLookAtOnceHaveTheirOwnMemory) {
  LazyDevice device(64 * MiB);
  SmallBuffers buffers;
  const auto one = buffers.borrow(device), other = buffers.borrow(device);
  ASSERT_TRUE(one && other);
  EXPECT_NE(*one, *other);
  buffers.give_back(device, *one);
  buffers.give_back(device, *other);  // one is enough
  const auto again = buffers.borrow(device);
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *one);
  buffers.give_back(device, *again);
  buffers.close(device);
  EXPECT_TRUE(device.complaints().empty());
}

TEST(Unforeseen, IsLongAgoAfterTwoWholeIterationsWithoutOne) {
  Unforeseen ops;
  { const Unforeseen::UnderWay one(ops, true, 7); }
  EXPECT_FALSE(ops.long_ago(9));
  EXPECT_TRUE(ops.long_ago(10));
  const Unforeseen::UnderWay foreseen(ops, false, 10);
  EXPECT_TRUE(ops.long_ago(10)) << "that names what it touches";
  const Unforeseen::UnderWay another(ops, true, 0);
  EXPECT_FALSE(ops.long_ago(100)) << "while one is under way";
}

}  // namespace
}  // namespace pooch::runtime
