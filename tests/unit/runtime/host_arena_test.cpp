#include "runtime/memory/host_arena.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

TEST(HostArena, UsesScatteredMemoryToTheLastPage) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 8 * MiB);
  std::vector<HostSlot> slots;
  for (int i = 0; i < 4; ++i) slots.push_back(*arena.allocate(2 * MiB));
  EXPECT_EQ(arena.allocate(1).error().code, ErrorCode::out_of_memory);
  arena.free(slots[0], Mark{});
  arena.free(slots[2], Mark{});
  const auto split = arena.allocate(4 * MiB);
  ASSERT_TRUE(split);
  EXPECT_EQ(split->size(), 2u);
  EXPECT_EQ(arena.locked_bytes(), 8 * MiB);
}

TEST(HostArena, ASlotIsNotHandedOutWhileACopyMayStillReadIt) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 2 * MiB);
  const StreamHandle stream = *device.create_stream();
  const StreamIndex index = order.index(stream);
  const HostSlot slot = *arena.allocate(2 * MiB);
  device.block(stream);
  const Mark copy = order.launched(index);
  arena.free(slot, copy);
  EXPECT_FALSE(arena.allocate(2 * MiB));
  ASSERT_TRUE(arena.busy());
  EXPECT_EQ(arena.busy()->ticket, copy.ticket);
  device.unblock(stream);
  device.drain();
  EXPECT_TRUE(arena.allocate(2 * MiB));
}

TEST(HostArena, NoExtentRunsFromOnePieceIntoAnother) {
  // Pieces of this device follow each other without a gap.
  struct Adjacent final : test::LazyDevice {
    using LazyDevice::LazyDevice;
    std::vector<std::byte> memory = std::vector<std::byte>(std::size_t{1024} * MiB);
    std::uint64_t used = 0;
    std::vector<std::uint64_t> ends;
    Result<std::byte*> host_allocate(std::uint64_t bytes) override {
      ends.push_back(used += bytes);
      return memory.data() + used - bytes;
    }
    Status host_free(std::byte* /*memory*/) override { return Done{}; }
    std::uint64_t end_of_piece(std::uint64_t offset) const {
      return *std::upper_bound(ends.begin(), ends.end(), offset);
    }
  } device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 1024 * MiB);
  for (int round = 0; round < 2; ++round) {
    std::vector<HostSlot> slots;
    for (int i = 0; i < 8; ++i) slots.push_back(*arena.allocate((i % 2 ? 128 : 96) * MiB));
    for (const HostSlot& slot : slots)
      for (const HostExtent& e : slot) {
        const auto offset = static_cast<std::uint64_t>(e.memory - device.memory.data());
        EXPECT_LE(offset + e.bytes, device.end_of_piece(offset));
      }
    for (HostSlot& slot : slots) arena.free(std::move(slot), Mark{});
  }
  EXPECT_GT(device.ends.size(), 3U);
}

TEST(HostArena, AHandleThatIsFreeServesAsOrdinaryMemoryWhereThereIsNoOther) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 8 * MiB);
  std::vector<HostSlot> handles;
  for (int i = 0; i < 4; ++i) handles.push_back(*arena.allocate_handle(2 * MiB));
  EXPECT_TRUE(arena.handle_of(handles[0]));
  EXPECT_EQ(arena.allocate_handle(2 * MiB).error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(arena.allocate(2 * MiB)) << "those in use are left alone";
  arena.free(handles[0], Mark{});
  arena.free(handles[1], Mark{});
  EXPECT_EQ(arena.allocate_handle(2 * MiB)->front().memory, handles[1].front().memory) << "it is whole still";
  const auto ordinary = arena.allocate(2 * MiB);
  ASSERT_TRUE(ordinary);
  EXPECT_EQ(ordinary->front().memory, handles[0].front().memory);
  EXPECT_FALSE(arena.handle_of(*ordinary));
  arena.free(*ordinary, Mark{});
  EXPECT_FALSE(arena.allocate_handle(2 * MiB)) << "it does not become one again";
  EXPECT_EQ(arena.locked_bytes(), 8 * MiB);
}

TEST(HostArena, ADeviceThatRefusesAHandleIsAskedForNoOther) {
  struct NoHandles final : test::LazyDevice {
    using LazyDevice::LazyDevice;
    int asked = 0;
    Result<HostHandle> create_host(std::uint64_t) override {
      ++asked;
      return Error{ErrorCode::not_supported, "no such handles", 801};
    }
  } device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 64 * MiB);
  testing::internal::CaptureStderr();
  EXPECT_EQ(arena.allocate_handle(2 * MiB).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(arena.allocate_handle(2 * MiB).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pooch: warning: a handle of 2 MiB of host memory failed (no such handles): less of what is "
            "evicted lands\n");
  EXPECT_EQ(device.asked, 1);
  EXPECT_TRUE(arena.allocate(2 * MiB)) << "ordinary memory is to be had";
}

TEST(HostArena, WhatCannotBePageLockedIsDoneWithout) {
  struct NoMemory final : test::LazyDevice {
    using LazyDevice::LazyDevice;
    bool refuses = false;
    Result<std::byte*> host_allocate(std::uint64_t bytes) override {
      if (refuses) return Error{ErrorCode::out_of_memory, "no more", 2};
      return LazyDevice::host_allocate(bytes);
    }
  } device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 256 * MiB);
  const auto first = arena.allocate(32 * MiB);
  ASSERT_TRUE(first);
  device.refuses = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(arena.allocate(2 * MiB).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pooch: warning: page-locking 32 MiB of host memory failed (no more): going on with 32 MiB\n");
  EXPECT_TRUE(arena.full());
  arena.free(*first, Mark{});
  EXPECT_TRUE(arena.allocate(2 * MiB)) << "what there is serves on";
}

TEST(HostArena, GrowsByAsMuchAgainAsThereIs) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  HostArena arena(device, order, 1000 * MiB);
  std::vector<std::uint64_t> locked;
  for (int i = 0; i < 125; ++i) {
    ASSERT_TRUE(arena.allocate(8 * MiB));
    if (locked.empty() || locked.back() != arena.locked_bytes() / MiB)
      locked.push_back(arena.locked_bytes() / MiB);
  }
  EXPECT_EQ(locked, (std::vector<std::uint64_t>{32, 64, 128, 256, 512, 768, 1000}));
}

}  // namespace
}  // namespace pooch::runtime
