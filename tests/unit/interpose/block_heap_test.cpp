// Blocks cut from slabs, without a device.
#include "interpose/driver/block_heap.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace pooch::interpose {
namespace {

constexpr std::uint64_t KiB = 1024;

BlockHeap with_slabs(int count) {
  BlockHeap heap;
  for (int i = 0; i < count; ++i)
    heap.add_slab(Address{64 * MiB + static_cast<std::uint64_t>(i) * BlockHeap::slab});
  return heap;
}

TEST(BlockHeap, AnEmptyOneAsksForASlab) {
  BlockHeap heap;
  EXPECT_TRUE(heap.empty());
  EXPECT_FALSE(heap.take(1));
}

TEST(BlockHeap, ABlockThatWasGivenBackIsTheNextOfItsSize) {
  BlockHeap heap = with_slabs(1);
  const Address a = *heap.take(3000), b = *heap.take(3000);
  EXPECT_EQ(b - a, 3072u);
  heap.give(a, 3000);
  EXPECT_NE(heap.take(1000), a);
  EXPECT_EQ(heap.take(2600), a) << "sizes are rounded up to units";
}

TEST(BlockHeap, BlocksAreJoinedForLargerOnesOnceAnEighthWasGivenBack) {
  BlockHeap heap = with_slabs(1);
  std::vector<Address> all;
  while (const auto block = heap.take(4 * KiB)) all.push_back(*block);
  ASSERT_EQ(all.size(), 512u);
  for (std::size_t i = 0; i < 63; ++i) heap.give(all[i], 4 * KiB);
  EXPECT_FALSE(heap.take(128 * KiB)) << "less than an eighth";
  heap.give(all[63], 4 * KiB);
  EXPECT_EQ(heap.take(128 * KiB), all[0]);
  EXPECT_EQ(heap.take(128 * KiB), all[32]);
  heap.give(all[100], 4 * KiB);
  heap.give(all[101], 4 * KiB);
  EXPECT_FALSE(heap.take(8 * KiB)) << "joined again only after as much once more";
}

TEST(BlockHeap, SlabsThatAreIdleAsAWholeAreReleased) {
  BlockHeap heap = with_slabs(3);
  std::vector<Address> all;
  for (int i = 0; i < 17; ++i) all.push_back(*heap.take(BlockHeap::largest));
  const Address c = all.back();
  for (std::size_t i = 0; i < 16; ++i) heap.give(all[i], BlockHeap::largest);
  EXPECT_EQ(heap.release().size(), 2u);
  EXPECT_TRUE(heap.contains(c + (BlockHeap::largest - 1)));
  heap.give(c, BlockHeap::largest);
  EXPECT_EQ(heap.release().size(), 1u);
  EXPECT_TRUE(heap.empty());
  EXPECT_FALSE(heap.contains(c));
}

TEST(BlockHeap, NeighbouringSlabsAreNotJoined) {
  BlockHeap heap = with_slabs(2);
  EXPECT_EQ(heap.release().size(), 2u);
}

TEST(BlockHeap, LiveBlocksNeverOverlapAndAllMemoryComesBack) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    BlockHeap heap;
    std::map<Address, std::uint64_t> live;  // bytes as asked for
    int slabs = 0;
    for (int i = 0; i < 4000; ++i) {
      if (!live.empty() && random() % 16 < 7) {
        const auto gone = std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        heap.give(gone->first, gone->second);
        live.erase(gone);
        continue;
      }
      const std::uint64_t bytes = 1 + random() % (std::uint64_t{1} << (4 + random() % 15));
      auto block = heap.take(bytes);
      if (!block) {
        heap.add_slab(Address{MiB + static_cast<std::uint64_t>(slabs++) * 3 * MiB});
        block = heap.take(bytes);
      }
      ASSERT_TRUE(block);
      const auto [place, fresh] = live.emplace(*block, bytes);
      ASSERT_TRUE(fresh);
      const auto before = place == live.begin() ? place : std::prev(place), after = std::next(place);
      ASSERT_TRUE(before == place || before->first + before->second <= *block);
      ASSERT_TRUE(after == live.end() || *block + bytes <= after->first);
      ASSERT_TRUE(heap.contains(*block) && heap.contains(*block + (bytes - 1)));
    }
    for (const auto& [block, bytes] : live) heap.give(block, bytes);
    EXPECT_EQ(heap.release().size(), static_cast<std::size_t>(slabs)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace pooch::interpose
