#include "runtime/placement/streaming.h"

#include <gtest/gtest.h>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

// A loop over 24 buffers of a chunk each, that no plan covers, under a cap of 16.
class Loop {
 public:
  static constexpr std::uint64_t buffers = 24;

  Loop() {
    for (std::uint64_t i = 0; i < buffers; ++i)
      ranges_.push_back(&residency_.open(Address{(std::uint64_t{1} << 45) + i * 64 * MiB}, page,
                                         AllocationId{i + 1}, page));
  }
  // Touches buffer i; true: its content was on the device, or on its way there, before the op came.
  bool touch(std::uint64_t i, bool ahead, Effect effect) {
    Range& range = *ranges_[i];
    const Chunk& chunk = range.chunks.front();
    const bool there = chunk.state == ChunkState::resident && !chunk.stale;
    tracker::Op op;
    op.description.function = i % 2 == 0 ? "even" : "odd";
    op.local_key = 1 + i;
    op.managed = true;
    op.operands.push_back({AllocationId{i + 1}, range.base, 0, range.bytes, effect, true, 0, &range});
    std::vector<ChunkUse> uses;
    const auto placed = placement_.place("a test", op.operands, uses, held_);
    EXPECT_TRUE(placed);
    for (const ChunkUse& use : uses) EXPECT_TRUE(order_.follow(order_.index(stream_), use.chunk->before));
    device.launch(stream_, [this, at = range.base] { (void)device.translate(at, page); });
    residency_.used(uses, order_.launched(order_.index(stream_)), placement_.clock());
    for (const ChunkUse& use : uses) use.chunk->live = true;
    streaming_.passed(op, uses);
    if (ahead) {
      EXPECT_TRUE(streaming_.move_ahead(held_));
    }
    device.drain();
    return there;
  }
  // Of the last pass, how many buffers were there before their op.
  std::uint64_t pass(bool ahead, Effect effect = Effect::read) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < buffers; ++i) found += touch(i, ahead, effect);
    return found;
  }

  LazyDevice device{512 * MiB};

 private:
  const Limits limits_{16 * page, 128 * MiB};
  StreamOrder order_{device};
  HandlePool pool_{device, limits_.cap};
  HostArena host_{device, order_, limits_.host_budget};
  Residency residency_{device, order_, pool_, host_, *device.create_stream(), *device.create_stream()};
  Foresight foresight_;
  Demand demand_{device, order_, pool_, host_, residency_, foresight_, Policy::demand};
  Departures departures_{device, order_, pool_, residency_};
  Placement placement_{limits_, pool_, residency_, departures_, demand_};
  Streaming streaming_{pool_, order_, residency_, departures_, placement_, foresight_};
  const StreamHandle stream_ = *device.create_stream();
  SessionMutex mutex_;
  Held held_{mutex_};
  std::vector<Range*> ranges_;
};

TEST(Streaming, ALoopOverMoreThanFitsKeepsMostOfItOnceItIsForeseen) {
  Loop loop;
  EXPECT_EQ(loop.pass(false, Effect::overwrite), 0u);
  std::uint64_t found = loop.pass(false);
  EXPECT_LT(found, 8u) << "what was used longest ago left, and is used next";
  for (int i = 0; i < 6; ++i) found = loop.pass(false);
  EXPECT_GE(found, 14u) << "16 fit";
  EXPECT_TRUE(loop.device.complaints().empty()) << loop.device.complaints().front();
}

TEST(Streaming, WhatIsForeseenToBeNeededIsFetchedBeforeItsOp) {
  Loop without, with;
  std::uint64_t at_need = 0, ahead = 0;
  for (int i = 0; i < 12; ++i) {
    const Effect effect = i == 0 ? Effect::overwrite : Effect::read;
    at_need = without.pass(false, effect);
    ahead = with.pass(true, effect);
  }
  EXPECT_GT(ahead, at_need);
  EXPECT_TRUE(with.device.complaints().empty()) << with.device.complaints().front();
}

}  // namespace
}  // namespace pooch::runtime
