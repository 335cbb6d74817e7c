#include "runtime/placement/demand.h"

#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

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
  Foresight foresight;
  Demand demand(device, order, pool, host, residency, foresight, Policy::demand);
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

TEST(Demand, WhatIsOnItsWayOutMakesRoomToo) {
  LazyDevice device(512 * MiB);
  StreamOrder order(device);
  HandlePool pool(device, 4 * MiB);
  HostArena host(device, order, 64 * MiB);
  Residency residency(device, order, pool, host, *device.create_stream(), *device.create_stream());
  Foresight foresight;
  Demand demand(device, order, pool, host, residency, foresight, Policy::demand);
  Range& range = residency.open(Address{std::uint64_t{1} << 45}, 4 * MiB, AllocationId{1}, 4 * MiB);
  const StreamIndex stream = order.index(*device.create_stream());
  for (Chunk& chunk : range.chunks) {
    const std::vector<ChunkUse> uses{{&chunk, false, true}};
    ASSERT_TRUE(residency.make_resident(uses));
    residency.used(uses, order.launched(stream), 1);
    chunk.live = true;
    ASSERT_TRUE(residency.begin_eviction(chunk));
  }
  SessionMutex mutex;
  Held held(mutex);
  EXPECT_TRUE(demand.make_room(4 * MiB, 2, held));
  EXPECT_EQ(pool.available(), 4 * MiB);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

}  // namespace
}  // namespace pooch::runtime
