// Chunks mapped to frames: they come together, move to other frames and lose none of their content.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/memory/residency.h"
#include "tests/support/lazy_device.h"
#include "tests/support/refusing_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::RefusedCall;
using test::RefusingDevice;

constexpr Address base{std::uint64_t{1} << 45};

struct Framed {
  explicit Framed(const RefusedCall& refused = {}) : device(inner, refused) {}
  ~Framed() { EXPECT_TRUE(inner.complaints().empty()) << inner.complaints().front(); }
  LazyDevice inner{512 * MiB};
  RefusingDevice device;
  StreamOrder order{device};
  HandlePool pool{device, 256 * MiB};
  HostArena host{device, order, 256 * MiB};
  Residency residency{device, order, pool, host, *device.create_stream(), *device.create_stream()};
  StreamHandle stream = *device.create_stream();
  std::vector<Frame> frames;

  Range& open(std::uint64_t bytes) { return residency.open(base, bytes, AllocationId{1}, bytes); }
  // One of each size.
  void make_frames(const std::vector<std::uint64_t>& sizes) {
    for (const std::uint64_t bytes : sizes) {
      const auto piece = pool.acquire_whole(bytes);
      ASSERT_TRUE(piece);
      frames.push_back({{*piece}});
    }
  }
  std::vector<Frame*> some(const std::vector<std::size_t>& numbers) {
    std::vector<Frame*> named;
    for (const std::size_t number : numbers) named.push_back(&frames[number]);
    return named;
  }
  // A chunk of 16 MiB in the first two of four frames, whose content has been saved.
  Chunk& saved() {
    Chunk& chunk = open(16 * MiB).chunks.front();
    make_frames({6 * MiB, 10 * MiB, 4 * MiB, 6 * MiB});
    EXPECT_TRUE(residency.map_to(chunk, some({0, 1})));
    EXPECT_TRUE(device.set_access(chunk.address, chunk.bytes));
    fill(chunk);
    EXPECT_TRUE(residency.save(chunk));
    inner.drain();
    return chunk;
  }
  // The device fills it with bytes that tell where they are.
  void fill(Chunk& chunk) {
    inner.launch(stream, [this, at = chunk.address, bytes = chunk.occupied] {
      for (std::uint64_t i = 0; i < bytes; i += page)
        std::memcpy(inner.translate(at + i, page), &i, sizeof i);
    });
    residency.used({{&chunk, false, true}}, order.launched(order.index(stream)), 1);
    chunk.live = true;
  }
  bool intact(const Chunk& chunk) {
    bool same = true;
    inner.launch(stream, [&, at = chunk.address, bytes = chunk.occupied] {
      for (std::uint64_t i = 0; i < bytes; i += page)
        same &= std::memcmp(inner.translate(at + i, page), &i, sizeof i) == 0;
    });
    inner.drain();
    return same;
  }
};

TEST(Frames, AChunkThatWasSavedComesBackInOtherFrames) {
  Framed framed;
  Chunk& chunk = framed.saved();
  ASSERT_TRUE(framed.residency.move_to(chunk, framed.some({0, 2, 3}), 1));
  EXPECT_TRUE(chunk.stale);
  EXPECT_FALSE(framed.intact(chunk)) << "the last 10 MiB are others";
  ASSERT_TRUE(framed.residency.fetch(chunk));
  framed.inner.drain();
  EXPECT_TRUE(framed.intact(chunk));
}

// An op got its frames, and the layout ended before the content came.
TEST(Frames, AChunkThatHasNotBeenFetchedYetIsEvictedWhenTheLayoutEnds) {
  Framed framed;
  Chunk& chunk = framed.saved();
  ASSERT_TRUE(framed.residency.move_to(chunk, framed.some({0, 2, 3}), 1));
  chunk.tenant = true;
  ASSERT_TRUE(framed.residency.unmap_from_frames(chunk));
  EXPECT_EQ(chunk.state, ChunkState::evicted);
  ASSERT_TRUE(framed.residency.make_resident({{&chunk, true, false}}));
  framed.inner.drain();
  EXPECT_TRUE(framed.intact(chunk));
}

TEST(Frames, AChunkThatCannotBeMovedHasNoMemoryAndKeepsItsCopy) {
  constexpr std::uint64_t most = 8;
  std::uint64_t refusals = 0, doubts = 0;
  for (std::uint64_t number = 1; number <= most; ++number) {
    Framed framed({.number = number, .code = ErrorCode::out_of_memory});
    framed.device.hold_off(true);
    Chunk& chunk = framed.saved();
    framed.device.hold_off(false);
    const auto moved = framed.residency.move_to(chunk, framed.some({0, 2, 3}), 1);
    framed.device.hold_off(true);
    if (moved) continue;
    ++refusals;
    doubts += framed.residency.doubt().has_value();
    EXPECT_TRUE(chunk.frames.empty());
    EXPECT_EQ(chunk.state, ChunkState::evicted);
    if (framed.residency.doubt()) continue;  // nobody may use it
    ASSERT_TRUE(framed.residency.make_resident({{&chunk, true, false}}));
    framed.inner.drain();
    EXPECT_TRUE(framed.intact(chunk)) << framed.device.struck();
  }
  EXPECT_GE(refusals, 4u);  // unmap, map twice, set_access
  EXPECT_EQ(doubts, 1u);
}

TEST(Frames, NeighboursBecomeOneChunkWithTheContentOfAll) {
  Framed framed;
  Range& range = framed.open(54 * MiB);
  ASSERT_GT(range.chunks.size(), 4u);
  std::vector<ChunkUse> uses;
  for (Chunk& chunk : range.chunks) uses.push_back({&chunk, false, true});
  ASSERT_TRUE(framed.residency.make_resident(uses));
  std::vector<Chunk*> leaving;
  for (std::size_t i = 1; i < range.chunks.size(); ++i) {
    if (i != 2) framed.fill(range.chunks[i]);  // that one has no content
    ASSERT_TRUE(framed.residency.begin_eviction(range.chunks[i]));
    leaving.push_back(&range.chunks[i]);
  }
  framed.inner.drain();
  ASSERT_TRUE(framed.residency.finish_evictions(leaving));
  const std::uint64_t first = range.chunks.front().bytes;

  ASSERT_TRUE(framed.residency.merge(range, 1, range.chunks.size() - 1));
  ASSERT_EQ(range.chunks.size(), 2u);
  Chunk& whole = range.chunks.back();
  EXPECT_EQ(whole.offset, first);
  EXPECT_EQ(whole.bytes, range.bytes - first);
  EXPECT_EQ(framed.residency.mapped(), std::vector<Chunk*>{&range.chunks.front()});
  ASSERT_TRUE(framed.residency.make_resident({{&whole, true, false}}));
  framed.inner.drain();
  // Each page tells where it is in the chunk that it was in.
  std::uint64_t last = page;
  framed.inner.launch(framed.stream, [&] {
    std::memcpy(&last, framed.inner.translate(whole.address + (whole.bytes - page), page), sizeof last);
  });
  framed.inner.drain();
  EXPECT_EQ(last, 0u) << "the last chunk had one page";
}

TEST(Frames, AMergedChunkBecomesItsPartsAgainWithTheContentOfEach) {
  Framed framed;
  Range& range = framed.open(54 * MiB);
  std::vector<std::uint64_t> sizes;
  std::vector<Chunk*> leaving;
  std::vector<ChunkUse> uses;
  for (Chunk& chunk : range.chunks) uses.push_back({&chunk, false, true});
  ASSERT_TRUE(framed.residency.make_resident(uses));
  for (Chunk& chunk : range.chunks) {
    sizes.push_back(chunk.bytes);
    framed.fill(chunk);
    ASSERT_TRUE(framed.residency.begin_eviction(chunk));
    leaving.push_back(&chunk);
  }
  framed.inner.drain();
  ASSERT_TRUE(framed.residency.finish_evictions(leaving));
  ASSERT_TRUE(framed.residency.merge(range, 2, 2));
  ASSERT_TRUE(framed.residency.merge(range, 0, 2));
  ASSERT_LT(range.chunks.size(), sizes.size());

  framed.residency.split(range);
  ASSERT_EQ(range.chunks.size(), sizes.size());
  uses.clear();
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < sizes.size(); offset += sizes[i++]) {
    Chunk& part = range.chunks[i];
    EXPECT_EQ(part.bytes, sizes[i]);
    EXPECT_EQ(part.offset, offset);
    EXPECT_EQ(part.state, ChunkState::evicted);
    uses.push_back({&part, true, false});
  }
  ASSERT_TRUE(framed.residency.make_resident(uses));
  framed.inner.drain();
  for (const Chunk& part : range.chunks) EXPECT_TRUE(framed.intact(part)) << part.offset / MiB;
}

TEST(Frames, PartsBehindTheAllocationsEndHaveNoContent) {
  Framed framed;
  Range& range = framed.open(54 * MiB);
  framed.residency.close(range, {});
  const Address base = range.base;
  framed.residency.open(base, range.bytes, AllocationId{7}, range.chunks.front().bytes);
  ASSERT_TRUE(framed.residency.make_resident({{&range.chunks.front(), false, true}}));
  framed.fill(range.chunks.front());
  ASSERT_TRUE(framed.residency.begin_eviction(range.chunks.front()));
  framed.inner.drain();
  ASSERT_TRUE(framed.residency.finish_eviction(range.chunks.front()));
  ASSERT_TRUE(framed.residency.merge(range, 0, range.chunks.size()));
  framed.residency.split(range);
  EXPECT_EQ(range.chunks.front().state, ChunkState::evicted);
  for (std::size_t i = 1; i < range.chunks.size(); ++i) {
    EXPECT_EQ(range.chunks[i].state, ChunkState::unbacked);
    EXPECT_TRUE(range.chunks[i].slot.empty());
  }
}

}  // namespace
}  // namespace pooch::runtime
