#include "runtime/placement/departures.h"

#include <gtest/gtest.h>

#include "tests/support/ladder.h"

namespace pooch::runtime {
namespace {

using test::OpenDevice;
using Wait = Departures::Wait;

constexpr std::uint64_t cap = 8 * page;

// Ranges of a page each, or of a few.
class Leaving : public testing::Test {
 protected:
  // As under a plan: what has finished is known to have.
  Leaving() { order.set_eager(true); }
  ~Leaving() override {
    device.drain();
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  }
  // On the device, with content that `stream` has written.
  Range& written(std::uint64_t pages = 1) {
    const std::uint64_t bytes = pages * page;
    ++count;
    Range& range = residency.open(Address{(std::uint64_t{1} << 45) + count * 64 * MiB}, bytes,
                                  AllocationId{count}, bytes);
    std::vector<ChunkUse> uses;
    for (Chunk& chunk : range.chunks) uses.push_back({&chunk, false, true});
    EXPECT_TRUE(residency.make_resident(uses));
    device.launch(stream, [this, at = range.base] { (void)device.translate(at, page); });
    residency.used(uses, order.launched(order.index(stream)), ++clock);
    for (Chunk& chunk : range.chunks) chunk.live = true;
    return range;
  }
  Chunk& evicted(Range& range) {
    Chunk& chunk = range.chunks.front();
    EXPECT_TRUE(residency.begin_eviction(chunk));
    departures.add(chunk);
    return chunk;
  }
  Chunk& dropped(Range& range) {
    Chunk& chunk = range.chunks.front();
    residency.begin_drop(chunk);
    departures.add(chunk);
    return chunk;
  }
  void fill_up() {
    while (pool.available() > 0) (void)written();
  }

  OpenDevice device{512 * MiB};
  StreamOrder order{device};
  HandlePool pool{device, cap};
  HostArena host{device, order, 64 * MiB};
  Residency residency{device, order, pool, host, *device.create_stream(), *device.create_stream()};
  Departures departures{device, order, pool, residency};
  SessionMutex mutex;
  Held held{mutex};
  const StreamHandle stream = *device.create_stream();
  std::uint64_t count = 0, clock = 0;
};

TEST_F(Leaving, NothingIsUnmappedWhileThereIsMemory) {
  Chunk& chunk = evicted(written());
  device.drain();
  EXPECT_TRUE(*departures.reclaim(page, Wait::yes, held));
  EXPECT_EQ(chunk.state, ChunkState::evicting);
  EXPECT_EQ(departures.bytes(), page);
}

TEST_F(Leaving, WhatHasFinishedGoesWithoutAWait) {
  Range &first = written(), &second = written();
  fill_up();
  Chunk &gone = evicted(first), &stays = evicted(second);
  device.drain();
  EXPECT_TRUE(*departures.reclaim(page, Wait::no, held));
  EXPECT_EQ(gone.state, ChunkState::evicted);
  EXPECT_EQ(stays.state, ChunkState::evicting) << "no more than is needed, in their order";
  EXPECT_EQ(departures.waits(), 0u);
}

TEST_F(Leaving, WhatHasNotFinishedIsWaitedForIfThatIsAsked) {
  Range& range = written();
  fill_up();
  Chunk& chunk = evicted(range);
  device.block(stream);
  (void)order.launched_exactly(order.index(stream));
  chunk.uses.add(order.latest(order.index(stream)));
  EXPECT_FALSE(*departures.reclaim(page, Wait::no, held));
  EXPECT_EQ(chunk.state, ChunkState::evicting);
  device.while_waiting = [this] { device.unblock(stream); };
  EXPECT_TRUE(*departures.reclaim(page, Wait::yes, held));
  device.while_waiting = nullptr;
  EXPECT_EQ(chunk.state, ChunkState::evicted);
  EXPECT_EQ(departures.waits(), 1u);
}

TEST_F(Leaving, NobodyWaitsForTheProgramItself) {
  Range& range = written();
  fill_up();
  (void)evicted(range);
  device.block(stream);
  order.note_host_blocking(order.index(stream));
  range.chunks.front().uses.add(order.launched(order.index(stream)));
  EXPECT_FALSE(*departures.reclaim(page, Wait::yes, held));
  EXPECT_EQ(departures.waits(), 0u);
  device.unblock(stream);
}

TEST_F(Leaving, WhereNothingIsUnderWayNothingComes) {
  fill_up();
  EXPECT_FALSE(*departures.reclaim(page, Wait::yes, held));
}

TEST_F(Leaving, WhatIsTakenBackOrInUseStays) {
  Range &back = written(), &used = written();
  fill_up();
  residency.take_back(evicted(back));
  evicted(used).pins = 1;
  EXPECT_EQ(departures.bytes(), 0u);
  device.drain();
  EXPECT_FALSE(*departures.reclaim(page, Wait::yes, held));
  EXPECT_EQ(back.chunks.front().state, ChunkState::resident);
  used.chunks.front().pins = 0;
  EXPECT_FALSE(*departures.reclaim(page, Wait::yes, held)) << "it is forgotten: who used it says so again";
}

TEST_F(Leaving, DroppedContentIsWaitedForAheadOfCopies) {
  Range &copied = written(), &dead = written();
  fill_up();
  Chunk &first = evicted(copied), &second = dropped(dead);
  device.while_waiting = [&] { EXPECT_EQ(first.state, ChunkState::evicting); };
  EXPECT_TRUE(*departures.reclaim(page, Wait::yes, held));
  device.while_waiting = nullptr;
  // Where the copy had ended as well, either may have gone.
  EXPECT_TRUE(second.state == ChunkState::dropped || first.state == ChunkState::evicted);
}

TEST_F(Leaving, ARangeThatIsClosedIsForgotten) {
  Range& range = written(2);
  fill_up();
  for (Chunk& chunk : range.chunks) {
    ASSERT_TRUE(residency.begin_eviction(chunk));
    departures.add(chunk);
  }
  EXPECT_EQ(departures.bytes(), 2 * page);
  departures.forget(range);
  EXPECT_EQ(departures.bytes(), 0u);
  EXPECT_FALSE(*departures.reclaim(page, Wait::yes, held));
}

TEST_F(Leaving, ThoseThatHaveGoneAreForgottenTogether) {
  Chunk &gone = evicted(written()), &stays = evicted(written());
  device.drain();
  ASSERT_TRUE(residency.finish_eviction(gone));
  departures.forget_all();
  EXPECT_EQ(departures.bytes(), stays.bytes);
}

TEST_F(Leaving, HandlesOfTheSizesThatAreLackingAreTakenFirst) {
  Range &leaving = written(), &other = written();
  Range& coming = residency.open(Address{std::uint64_t{1} << 44}, page, AllocationId{99}, page);
  const std::vector<ChunkUse> uses{{&coming.chunks.front(), false, true}};
  Chunk &first = evicted(leaving), &second = evicted(other);
  ASSERT_TRUE(departures.take_matching(uses));
  EXPECT_EQ(first.state, ChunkState::evicting) << "its copy has not ended";
  device.drain();
  ASSERT_TRUE(departures.take_matching(uses));
  EXPECT_EQ(first.state, ChunkState::evicted);
  EXPECT_EQ(second.state, ChunkState::evicting) << "one was lacking";
  ASSERT_TRUE(departures.take_matching(uses));
  EXPECT_EQ(second.state, ChunkState::evicting) << "a free one is there";
  const std::uint64_t created = device.created_bytes();
  ASSERT_TRUE(residency.make_resident(uses));
  EXPECT_EQ(device.created_bytes(), created);
}

}  // namespace
}  // namespace pooch::runtime
