// Chunks mapped to frames: they move to other frames, are cut anew, and lose none of their content.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

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
  // The device fills it with numbers that tell where they are, counted from `from`.
  void fill(Chunk& chunk, std::uint64_t from = 0) {
    inner.launch(stream, [this, from, at = chunk.address, bytes = chunk.occupied] {
      for (std::uint64_t i = 0, number = from; i < bytes; i += page, number += page)
        std::memcpy(inner.translate(at + i, page), &number, sizeof number);
    });
    residency.used({{&chunk, false, true}}, order.launched(order.index(stream)), 1);
    chunk.live = true;
  }
  bool intact(const Chunk& chunk, std::uint64_t from = 0) {
    bool same = true;
    inner.launch(stream, [&, at = chunk.address, bytes = chunk.occupied] {
      for (std::uint64_t i = 0, number = from; i < bytes; i += page, number += page)
        same &= std::memcmp(inner.translate(at + i, page), &number, sizeof number) == 0;
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

// A range whose chunks hold content on the host, but for those at `empty`.
Range& evicted(Framed& framed, const std::set<std::size_t>& empty) {
  Range& range = framed.open(54 * MiB);
  std::vector<ChunkUse> uses;
  std::vector<Chunk*> leaving;
  for (std::size_t i = 0; i < range.chunks.size(); ++i)
    if (!empty.contains(i)) uses.push_back({&range.chunks[i], false, true});
  EXPECT_TRUE(framed.residency.make_resident(uses));
  for (const ChunkUse& use : uses) {
    framed.fill(*use.chunk, use.chunk->offset);
    EXPECT_TRUE(framed.residency.begin_eviction(*use.chunk));
    leaving.push_back(use.chunk);
  }
  framed.inner.drain();
  EXPECT_TRUE(framed.residency.finish_evictions(leaving));
  return range;
}

TEST(Frames, ARangeIsCutIntoOtherChunksWithTheContentOfEach) {
  Framed framed;
  Range& range = evicted(framed, {});
  for (const std::vector<std::uint64_t>& sizes :
       {std::vector{54 * MiB}, std::vector{20 * MiB, 20 * MiB, 14 * MiB}, std::vector{28 * MiB, 28 * MiB},
        std::vector{2 * MiB, 52 * MiB}}) {
    ASSERT_TRUE(framed.residency.cut(range, sizes));
    ASSERT_EQ(range.chunks.size(), sizes.size());
    std::vector<ChunkUse> uses;
    std::uint64_t offset = 0;
    for (std::size_t i = 0; i < sizes.size(); offset += sizes[i++]) {
      Chunk& part = range.chunks[i];
      EXPECT_EQ(part.bytes, sizes[i]);
      EXPECT_EQ(part.offset, offset);
      EXPECT_EQ(part.occupied, std::min(sizes[i], 54 * MiB - offset)) << "the last may end behind the range";
      EXPECT_EQ(part.state, ChunkState::evicted);
      uses.push_back({&part, true, false});
    }
    ASSERT_TRUE(framed.residency.make_resident(uses));
    framed.inner.drain();
    std::vector<Chunk*> leaving;
    for (Chunk& part : range.chunks) {
      EXPECT_TRUE(framed.intact(part, part.offset)) << part.offset / MiB;
      ASSERT_TRUE(framed.residency.begin_eviction(part));
      leaving.push_back(&part);
    }
    ASSERT_TRUE(framed.residency.finish_evictions(leaving));
  }
}

TEST(Frames, WhatHasNoContentIsOnTheHostOnlyBesideWhatHas) {
  Framed framed;
  Range& range = evicted(framed, {1, 4, 5});  // chunks of 16, 16, 16 and three of 2 MiB
  ASSERT_TRUE(framed.residency.cut(range, {16 * MiB, 8 * MiB, 26 * MiB, 4 * MiB}));
  const auto state = [&](std::size_t part) { return range.chunks[part].state; };
  EXPECT_EQ(state(0), ChunkState::evicted);
  EXPECT_EQ(state(1), ChunkState::unbacked);
  EXPECT_TRUE(range.chunks[1].slot.empty());
  EXPECT_EQ(state(2), ChunkState::evicted);
  EXPECT_EQ(state(3), ChunkState::unbacked);
  ASSERT_TRUE(framed.residency.make_resident({{&range.chunks[2], true, false}}));
  framed.inner.drain();
  std::uint64_t at = 0;
  framed.inner.launch(framed.stream, [&] {
    std::memcpy(&at, framed.inner.translate(range.base + 40 * MiB, page), sizeof at);
  });
  framed.inner.drain();
  EXPECT_EQ(at, 40 * MiB);
}

TEST(Frames, ARangeIsNotCutWhereSomeOfAChunkWouldBeLost) {
  Framed framed;
  Range& range = evicted(framed, {1});
  Chunk& dropped = range.chunks[1];
  ASSERT_TRUE(framed.residency.make_resident({{&dropped, false, true}}));
  framed.fill(dropped, 0);
  framed.inner.drain();
  framed.residency.begin_drop(dropped);
  ASSERT_TRUE(framed.residency.finish_eviction(dropped));
  const std::size_t before = range.chunks.size();
  EXPECT_EQ(framed.residency.cut(range, {54 * MiB}).error().code, ErrorCode::internal);
  EXPECT_EQ(range.chunks.size(), before);
  EXPECT_TRUE(framed.residency.cut(range, {16 * MiB, 16 * MiB, 22 * MiB})) << "it is apart";
  EXPECT_EQ(range.chunks[1].state, ChunkState::dropped);
}

TEST(Frames, PartsBehindTheAllocationsEndHaveNoContent) {
  Framed framed;
  Range& range = framed.open(54 * MiB);
  framed.residency.close(range, {});
  framed.residency.open(range.base, range.bytes, AllocationId{7}, 16 * MiB);
  ASSERT_TRUE(framed.residency.make_resident({{&range.chunks.front(), false, true}}));
  framed.fill(range.chunks.front());
  ASSERT_TRUE(framed.residency.begin_eviction(range.chunks.front()));
  framed.inner.drain();
  ASSERT_TRUE(framed.residency.finish_eviction(range.chunks.front()));
  ASSERT_TRUE(framed.residency.cut(range, {10 * MiB, 10 * MiB, 34 * MiB}));
  EXPECT_EQ(range.chunks[0].occupied, 10 * MiB);
  EXPECT_EQ(range.chunks[1].occupied, 6 * MiB);
  EXPECT_EQ(range.chunks[1].state, ChunkState::evicted);
  EXPECT_EQ(range.chunks[2].state, ChunkState::unbacked);
  EXPECT_TRUE(range.chunks[2].slot.empty());
}

}  // namespace
}  // namespace pooch::runtime
