// The small parts that memory is built from, each by itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <utility>

#include "runtime/memory/address_space.h"
#include "runtime/memory/counting_device.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/placement/demand.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

TEST(AddressSpace, HandsOutTheLowestFreeRangeOfExactlyThatSize) {
  AddressSpace space(Address{0}, 100 * MiB);
  const Address a = *space.allocate(4 * MiB), b = *space.allocate(4 * MiB), c = *space.allocate(6 * MiB);
  space.free(b, 4 * MiB);
  space.free(a, 4 * MiB);
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
  space.free(a, 4 * MiB);
  space.free(b, 4 * MiB);
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
  for (const std::uint64_t base : {0, 6}) space.free(Address{base * MiB}, 4 * MiB);
  space.coalesce({{Address{0}, 4 * MiB}, {Address{6 * MiB}, 4 * MiB}});
  EXPECT_EQ(space.allocate(10 * MiB), Address{0});
}

TEST(AddressSpace, AStreamGetsItsOwnRangesBack) {
  AddressSpace space(Address{0}, 100 * MiB);
  const StreamHandle loader{7}, compute{8};
  const Address a = *space.allocate(4 * MiB, compute), b = *space.allocate(4 * MiB, loader);
  space.free(a, 4 * MiB);
  space.free(b, 4 * MiB);
  EXPECT_EQ(*space.allocate(4 * MiB, loader), b);
  EXPECT_NE(*space.allocate(4 * MiB, loader), a) << "compute may still be at work on it";
  space.disown(compute);
  EXPECT_EQ(*space.allocate(4 * MiB), a) << "a stream that is gone leaves its ranges to all";
  space.free(a, 4 * MiB);
  space.free(b, 4 * MiB);
  space.disown(loader);
  EXPECT_EQ(*space.allocate(4 * MiB), a);
  EXPECT_EQ(*space.allocate(4 * MiB), b);
}

TEST(AddressSpace, WhatAnotherStreamFreedLastIsKeptBack) {
  AddressSpace space(Address{0}, 12 * MiB);
  const StreamHandle loader{7}, compute{8};
  const Address a = *space.allocate(4 * MiB, loader);
  space.free(a, 4 * MiB, compute);
  const Address b = *space.allocate(4 * MiB, loader);
  EXPECT_NE(b, a);
  for (int i = 0; i < 3; ++i) {
    space.free(i % 2 ? a : b, 4 * MiB, compute);
    EXPECT_EQ(*space.allocate(4 * MiB, loader), i % 2 ? b : a) << "two in turn";
  }
  (void)*space.allocate(4 * MiB, loader);
  EXPECT_EQ(*space.allocate(4 * MiB, loader), b) << "the arena has no other";
  space.free(b, 4 * MiB, compute);
  space.coalesce({{b, 4 * MiB}});
  EXPECT_EQ(*space.allocate(2 * MiB, compute), b);
}

TEST(HandlePool, ComposesGreedilyFromClassesThatSuitTheCap) {
  LazyDevice device(4 * GiB);
  HandlePool large(device, 4 * GiB), small(device, 64 * MiB);
  EXPECT_EQ(large.compose(150 * MiB),
            (std::vector<std::uint64_t>{128 * MiB, 16 * MiB, 2 * MiB, 2 * MiB, 2 * MiB}));
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

struct Backed {
  LazyDevice device{512 * MiB};
  StreamOrder order{device};
  HandlePool pool{device, 256 * MiB};
  HostArena host{device, order, 256 * MiB};
  Residency residency{device, order, pool, host, *device.create_stream(), *device.create_stream()};

  // So many neighbours that are on the device, as a list of uses.
  std::vector<ChunkUse> resident(std::uint64_t bytes) {
    Range& range = residency.open(Address{std::uint64_t{1} << 45}, bytes, AllocationId{1}, bytes);
    std::vector<ChunkUse> uses;
    for (Chunk& chunk : range.chunks) uses.push_back({&chunk, false, true});
    EXPECT_TRUE(residency.make_resident(uses));
    return uses;
  }
  std::vector<Chunk*> leave(const std::vector<ChunkUse>& uses) {
    std::vector<Chunk*> chunks;
    for (const ChunkUse& use : uses) {
      EXPECT_TRUE(residency.begin_eviction(*use.chunk));
      chunks.push_back(use.chunk);
    }
    device.drain();
    return chunks;
  }
};

TEST(Residency, UnmapsNeighboursWithOneCall) {
  Backed backed;
  auto chunks = backed.leave(backed.resident(54 * MiB));
  ASSERT_GT(chunks.size(), 4u);
  std::reverse(chunks.begin(), chunks.end());
  chunks.push_back(chunks.front());  // named twice
  const Chunk* const between = chunks[2];
  chunks.erase(chunks.begin() + 2);
  ASSERT_TRUE(backed.residency.finish_evictions(chunks));
  EXPECT_EQ(backed.device.unmaps(), 2u);
  EXPECT_EQ(backed.residency.mapped().size(), 1u);
  EXPECT_EQ(backed.residency.mapped().front(), between);
  EXPECT_EQ(backed.pool.in_use(), between->bytes);
  EXPECT_TRUE(backed.device.complaints().empty());
}

TEST(Residency, UnmapsOneByOneWhereTheDriverTakesOne) {
  Backed backed;
  backed.device.unmap_one_by_one();
  const auto chunks = backed.leave(backed.resident(54 * MiB));
  ASSERT_TRUE(backed.residency.finish_evictions(chunks));
  EXPECT_EQ(backed.device.unmaps(), chunks.size());
  EXPECT_EQ(backed.pool.in_use(), 0u);
}

TEST(Demand, WhatIsTakenBackAndLeavesAgainIsWaitedForAgain) {
  struct Interrupted final : LazyDevice {
    using LazyDevice::LazyDevice;
    std::function<void()> another_thread;
    Status synchronize(EventHandle event) override {
      const auto done = LazyDevice::synchronize(event);
      if (another_thread) std::exchange(another_thread, nullptr)();
      return done;
    }
  } device(512 * MiB);
  StreamOrder order(device);
  HandlePool pool(device, 4 * MiB);
  HostArena host(device, order, 64 * MiB);
  Residency residency(device, order, pool, host, *device.create_stream(), *device.create_stream());
  Demand demand(device, order, pool, host, residency, Policy::demand);
  const StreamHandle stream = *device.create_stream();
  Range& range = residency.open(Address{std::uint64_t{1} << 45}, 4 * MiB, AllocationId{1}, 4 * MiB);
  std::uint64_t op = 0;
  const auto use = [&](Chunk& chunk) {
    const std::vector<ChunkUse> uses{{&chunk, false, true}};
    ASSERT_TRUE(residency.make_resident(uses));
    device.launch(stream, [&device, at = chunk.address] { (void)device.translate(at, 2 * MiB); });
    residency.used(uses, order.launched(order.index(stream)), ++op);
    chunk.live = true;
  };
  for (Chunk& chunk : range.chunks) use(chunk);
  Chunk& first = range.chunks.front();
  device.another_thread = [&] {
    use(first);
    ASSERT_TRUE(residency.begin_eviction(first));
  };
  SessionMutex mutex;
  Held held(mutex);
  EXPECT_TRUE(demand.make_room(4 * MiB, ++op, held));
  device.drain();
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  EXPECT_EQ(first.state, ChunkState::evicted);
}

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

TEST(StreamOrder, AWaitIsIssuedOnceAndNotWithinOneStream) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamIndex a = order.index(*device.create_stream()), b = order.index(*device.create_stream());
  const Mark mark = order.launched(a);
  ASSERT_TRUE(order.follow(a, mark));
  EXPECT_EQ(device.waits(), 0u);
  ASSERT_TRUE(order.follow(b, mark));
  ASSERT_TRUE(order.follow(b, mark));
  EXPECT_EQ(device.waits(), 1u);
  device.drain();
  EXPECT_TRUE(*order.finished(mark));
  EXPECT_EQ(*order.event_for(mark), EventHandle::none) << "known to be finished";
}

TEST(StreamOrder, CountsWhenTheProgramsWorkFollowsPoochs) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamIndex copies = order.index(*device.create_stream()), a = order.index(*device.create_stream()),
                    b = order.index(*device.create_stream());
  order.set_own(copies);
  ASSERT_TRUE(order.follow(b, order.launched(a)));
  ASSERT_TRUE(order.follow(copies, order.launched(b)));
  EXPECT_EQ(order.waits_for_own(), 0u);
  ASSERT_TRUE(order.follow(a, order.launched(copies)));
  EXPECT_EQ(order.waits_for_own(), 1u);
}

TEST(StreamOrder, MarksOfADestroyedStreamStayValid) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  const StreamHandle handle = *device.create_stream();
  const StreamIndex old = order.index(handle);
  const Mark mark = order.launched(old);
  order.retire(handle);
  EXPECT_NE(order.index(handle), old) << "a new stream with the same handle is another stream";
  device.drain();
  EXPECT_TRUE(*order.finished(mark));
}

// To another thread the handle of per-thread streams is another stream, in which no event of it can be
// recorded.
TEST(StreamOrder, APerThreadStreamHasItsEventsBeforeAnotherThreadAsks) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  Mark mark;
  std::thread([&] { mark = order.launched(order.index(StreamHandle::per_thread)); }).join();
  const std::size_t recorded = device.events();
  EXPECT_EQ(recorded, 1u);
  ASSERT_TRUE(order.follow(order.index(*device.create_stream()), mark));
  EXPECT_EQ(device.waits(), 1u);
  EXPECT_EQ(device.events(), recorded);
}

}  // namespace
}  // namespace pooch::runtime
