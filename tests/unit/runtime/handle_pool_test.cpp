#include "runtime/memory/handle_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>

#include "runtime/memory/counting_device.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

TEST(HandlePool, ComposesGreedilyFromClassesThatSuitTheCap) {
  LazyDevice device(4 * GiB);
  HandlePool large(device, 4 * GiB), small(device, 64 * MiB);
  EXPECT_EQ(large.compose(150 * MiB), (std::vector<std::uint64_t>{128 * MiB, 16 * MiB, 4 * MiB, 2 * MiB}));
  EXPECT_EQ(small.compose(6 * MiB), (std::vector<std::uint64_t>{2 * MiB, 2 * MiB, 2 * MiB}));
}

TEST(HandlePool, RecyclesHandlesAndDestroysOnlyToMakeRoomForAnotherSize) {
  LazyDevice device(512 * MiB);
  HandlePool pool(device, 256 * MiB);
  const Pieces first = *pool.acquire(16 * MiB);
  ASSERT_EQ(first.size(), 1u);
  pool.give_back(first);
  const Pieces again = *pool.acquire(16 * MiB);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].handle, first[0].handle);
  pool.give_back(again);
  std::vector<Pieces> pages;
  for (int i = 0; i < 128; ++i) pages.push_back(*pool.acquire(2 * MiB));
  EXPECT_EQ(device.created_bytes(), 256 * MiB);
  EXPECT_EQ(pool.acquire(2 * MiB).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.peak(), 256 * MiB);
  for (const Pieces& p : pages) pool.give_back(p);
}

// All of 256 MiB, now in large and now in small pieces, in another order each time, half of them replaced at
// a time: what stays has whatever handles it was given.
void replace_halves(HandlePool& pool, std::mt19937& dice) {
  std::vector<std::pair<std::uint64_t, Pieces>> held;
  for (const int large : {16, 3, 9, 0, 12}) {
    std::shuffle(held.begin(), held.end(), dice);
    for (; pool.available() < 128 * MiB; held.pop_back()) pool.give_back(held.back().second);
    const int now = std::min<int>(large, static_cast<int>(pool.available() / (16 * MiB)));
    for (int i = 0; pool.available() > 0; ++i) {
      const std::uint64_t bytes = i < now ? 16 * MiB : 2 * MiB;
      auto pieces = pool.acquire(bytes);
      ASSERT_TRUE(pieces) << "whatever is free serves";
      std::uint64_t together = 0;
      for (const Piece& piece : *pieces) together += piece.bytes;
      ASSERT_EQ(together, bytes);
      held.emplace_back(bytes, std::move(*pieces));
    }
    EXPECT_FALSE(pool.acquire(2 * MiB));
  }
  for (const auto& [bytes, pieces] : held) pool.give_back(pieces);
}

TEST(HandlePool, OnceHandlesAreOfOneSizeALoopCreatesNone) {
  LazyDevice lazy(512 * MiB);
  CountingDevice device(lazy);
  HandlePool pool(device, 256 * MiB);
  std::mt19937 dice(7);
  replace_halves(pool, dice);
  const std::uint64_t before = device.counters().handles_created;
  EXPECT_LT(before, 256 / 2) << "large ones where they serve";
  pool.use_units();
  replace_halves(pool, dice);
  const std::uint64_t created = device.counters().handles_created;
  EXPECT_GT(created, before) << "large ones made way";
  for (int round = 0; round < 20; ++round) replace_halves(pool, dice);
  EXPECT_EQ(device.counters().handles_created, created);
  EXPECT_EQ(lazy.peak_bytes(), 256 * MiB);
}

TEST(HandlePool, WhatWasBrokenUpIsMadeWholeAgain) {
  LazyDevice device(512 * MiB);
  HandlePool pool(device, 256 * MiB);
  std::vector<Pieces> pages;
  for (int i = 0; i < 128; ++i) pages.push_back(*pool.acquire(2 * MiB));
  for (const Pieces& page : pages) pool.give_back(page);
  const auto large = pool.acquire(16 * MiB);
  ASSERT_TRUE(large);
  EXPECT_EQ(large->size(), 1u) << "not eight pages, which would be mapped one by one each time";
  EXPECT_EQ(device.peak_bytes(), 256 * MiB);
}

TEST(HandlePool, TheUnitGrowsWithTheCapSoThatHandlesDoNotBecomeTooMany) {
  EXPECT_EQ(HandlePool::unit(64 * MiB), 2 * MiB);
  EXPECT_EQ(HandlePool::unit(16 * GiB), 2 * MiB);
  EXPECT_EQ(HandlePool::unit(141 * GiB), 16 * MiB);
}

TEST(HandlePool, ADeviceWithLessThanTheCapLowersTheCapAndSomeOfItStaysFree) {
  LazyDevice device(64 * MiB);
  HandlePool pool(device, 256 * MiB);
  std::vector<Pieces> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(*pool.acquire(16 * MiB));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(pool.acquire(16 * MiB));
  EXPECT_FALSE(pool.acquire(2 * MiB));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("less memory than the cap of 256 MiB: going on with 60 MiB"), std::string::npos)
      << said;
  EXPECT_EQ(pool.limit(), 60 * MiB);
  pool.give_back(handles.back());
  EXPECT_EQ(*device.free_bytes(), 16 * MiB) << "a handle of 16 MiB is more than is left";
  EXPECT_TRUE(pool.acquire(2 * MiB)) << "what there is is still usable";
  while (pool.acquire(2 * MiB)) continue;
  EXPECT_EQ(*device.free_bytes(), 4 * MiB)
      << "for code that is loaded late, local memory, tables of mappings";
}

TEST(HandlePool, WhatStaysFreeIsASmallShareOfTheCap) {
  EXPECT_EQ(device_slack(64 * MiB), 2 * MiB);
  EXPECT_EQ(device_slack(16 * GiB), 256 * MiB);
  EXPECT_EQ(device_slack(141 * GiB), 512 * MiB);
}

TEST(HandlePool, SpareHandlesMakeWayWhereTheDeviceIsFullBelowTheCap) {
  LazyDevice device(64 * MiB);
  device.take_outside(16 * MiB);  // that nobody told the pool of
  HandlePool pool(device, 64 * MiB);
  std::vector<Pieces> pages;
  for (int i = 0; i < 24; ++i) pages.push_back(*pool.acquire(2 * MiB));
  for (int i = 0; i < 2; ++i) pool.give_back(pages[i]);
  EXPECT_TRUE(pool.acquire(4 * MiB)) << "two spare handles of another size stood in the way";
  EXPECT_EQ(device.created_bytes(), 48 * MiB);
  EXPECT_EQ(pool.limit(), 64 * MiB) << "nothing was refused, so nothing was learnt of the device";
}

TEST(HandlePool, OutsideMemoryTakesFromTheSameCap) {
  LazyDevice device(512 * MiB);
  HandlePool pool(device, 64 * MiB);
  pool.give_back(*pool.acquire(2 * MiB));
  ASSERT_TRUE(pool.set_outside(64 * MiB));
  EXPECT_EQ(device.created_bytes(), 0u) << "free handles made way";
  EXPECT_FALSE(pool.acquire(2 * MiB));
  ASSERT_TRUE(pool.set_outside(0));
  EXPECT_TRUE(pool.acquire(2 * MiB));
}

TEST(HandlePool, WhatIsReservedIsNotTaken) {
  LazyDevice device(512 * MiB);
  HandlePool pool(device, 256 * MiB);
  ASSERT_TRUE(pool.set_outside(6 * MiB));
  ASSERT_TRUE(pool.set_outside(2 * MiB));
  EXPECT_EQ(pool.outside(), 6 * MiB);
  EXPECT_EQ(pool.taken_outside(), 2 * MiB);
  EXPECT_EQ(pool.in_use(), 2 * MiB);
  const auto pieces = pool.acquire(128 * MiB);
  ASSERT_TRUE(pieces);
  EXPECT_EQ(pool.peak(), 130 * MiB);
  EXPECT_EQ(pool.in_use(), 130 * MiB);
  ASSERT_TRUE(pool.set_outside(4 * MiB));
  EXPECT_EQ(pool.peak(), 132 * MiB) << "also within what was reserved";
}

TEST(HandlePool, OnePageOutsideThatComesAndGoesCreatesNoHandleUnderASmallCap) {
  LazyDevice device(512 * MiB);
  HandlePool pool(device, 48 * MiB);
  ASSERT_TRUE(pool.set_outside(16 * MiB));
  pool.give_back(*pool.acquire(32 * MiB));
  for (int iteration = 0; iteration < 3; ++iteration) {
    ASSERT_TRUE(pool.set_outside(12 * MiB));  // with it goes the page for the next
    pool.give_back(*pool.acquire(pool.available()));
    EXPECT_EQ(device.created_bytes(), 32 * MiB);
    ASSERT_TRUE(pool.set_outside(16 * MiB));
    EXPECT_EQ(device.created_bytes(), 32 * MiB);
  }
}

}  // namespace
}  // namespace pooch::runtime
