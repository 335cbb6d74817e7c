#include "runtime/placement/placement.h"

#include <gtest/gtest.h>

#include <chrono>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

// A cap of three chunks: one that is leaving behind a stream that the program holds up, one of content that
// can be copied out, one free.
TEST(Placement, WhatIsMappedAheadOfMemoryThatDoesNotComeIsNotAskedForAgain) {
  LazyDevice device(512 * MiB);
  const Limits limits{3 * page, 64 * MiB};
  StreamOrder order(device);
  HandlePool pool(device, limits.cap);
  HostArena host(device, order, limits.host_budget);
  Residency residency(device, order, pool, host, *device.create_stream(), *device.create_stream());
  Foresight foresight;
  Demand demand(device, order, pool, host, residency, foresight, Policy::demand);
  Departures departures(device, order, pool, residency);
  Placement placement(limits, pool, residency, departures, demand);
  SessionMutex mutex;
  Held lock(mutex);
  const StreamHandle held = *device.create_stream(), free = *device.create_stream();

  std::uint64_t number = 0;
  const auto open = [&](std::uint64_t bytes) -> Range& {
    ++number;
    return residency.open(Address{(std::uint64_t{1} << 45) + number * MiB * 64}, bytes, AllocationId{number},
                          bytes);
  };
  const auto write = [&](Range& range, StreamHandle stream) {
    std::vector<ChunkUse> uses;
    const tracker::Operand operand{AllocationId{number}, range.base, 0, range.bytes,
                                   Effect::overwrite,    true,       0, &range};
    const auto placed = placement.place("a test", {&operand, 1}, uses, lock);
    if (!placed) return placed;
    for (const ChunkUse& use : uses) use.chunk->live = true;
    device.launch(stream, [&device, at = range.base] { (void)device.translate(at, page); });
    residency.used(uses, order.launched(order.index(stream)), placement.clock());
    return placed;
  };
  Range &stays = open(page), &leaves = open(page);
  ASSERT_TRUE(write(stays, free));
  device.drain();
  device.block(held);
  order.note_host_blocking(order.index(held));
  ASSERT_TRUE(write(leaves, held));
  Chunk& leaving = leaves.chunks.front();
  residency.begin_drop(leaving);
  departures.add(leaving);

  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE(write(open(2 * page), free)) << "one chunk is free, and another can go";
  // Far less than Demand's patience with a program that holds its stream up.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  EXPECT_EQ(stays.chunks.front().state, ChunkState::evicted);
  device.unblock(held);
  device.drain();
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

}  // namespace
}  // namespace pooch::runtime
