#include "runtime/memory/residency.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

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

}  // namespace
}  // namespace pooch::runtime
