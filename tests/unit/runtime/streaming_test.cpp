#include "runtime/placement/streaming.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

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
  // From now on nothing is foreseen: what was used longest ago leaves.
  void forget_what_was() { foresees_ = false; }
  // Chunks that came or left.
  std::uint64_t moves() const { return came_ + residency_.evictions(); }
  // Touches buffer i; true: its content was on the device, or on its way there, before the op came.
  bool touch(std::uint64_t i, bool ahead, Effect effect) {
    Range& range = *ranges_[i];
    const Chunk& chunk = range.chunks.front();
    const bool there = chunk.state == ChunkState::resident && !chunk.stale;
    tracker::Op op;
    op.description.function = i % 2 == 0 ? "even" : "odd";
    op.local_key = 1 + i;
    run(op, range, ahead, effect);
    return there;
  }
  // The same by one of a few ops that touch any buffer.
  void touch_by(std::size_t which, std::uint64_t i, Effect effect) {
    constexpr std::array<std::string_view, 4> functions = {"one", "another", "a third", "a fourth"};
    tracker::Op op;
    op.description.function = functions[which];
    op.local_key = which;
    run(op, *ranges_[i], foresees_, effect);
  }

  // Of the last pass, how many buffers were there before their op.
  std::uint64_t pass(bool ahead, Effect effect = Effect::read) {
    std::uint64_t found = 0;
    for (std::uint64_t i = 0; i < buffers; ++i) found += touch(i, ahead, effect);
    return found;
  }

  LazyDevice device{512 * MiB};

 private:
  void run(tracker::Op& op, Range& range, bool ahead, Effect effect) {
    op.managed = true;
    op.operands.push_back({range.chunks.front().owner, range.base, 0, range.bytes, effect, true, 0, &range});
    const std::vector<bool> away = evicted();
    std::vector<ChunkUse> uses;
    const auto placed = placement_.place("a test", op.operands, uses, held_);
    EXPECT_TRUE(placed);
    for (const ChunkUse& use : uses) EXPECT_TRUE(order_.follow(order_.index(stream_), use.chunk->before));
    device.launch(stream_, [this, at = range.base] { (void)device.translate(at, page); });
    residency_.used(uses, order_.launched(order_.index(stream_)), placement_.clock());
    for (const ChunkUse& use : uses) use.chunk->live = true;
    streaming_.passed(op, uses);
    if (!foresees_) {
      foresight_.lose_track();
      for (const ChunkUse& use : uses) use.chunk->next_use = 0;
    }
    if (ahead) {
      EXPECT_TRUE(streaming_.move_ahead(held_));
    }
    device.drain();
    const std::vector<bool> still = evicted();
    for (std::size_t i = 0; i < away.size(); ++i) came_ += away[i] && !still[i];
  }
  std::vector<bool> evicted() const {
    std::vector<bool> all;
    for (const Range* range : ranges_) all.push_back(range->chunks.front().state == ChunkState::evicted);
    return all;
  }

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
  bool foresees_ = true;
  std::uint64_t came_ = 0;
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

// Where nothing repeats itself the past tells nothing, and following it must not cost much.
TEST(Streaming, OfARandomProgramMovesHardlyMoreThanWithoutAPast) {
  constexpr int ops = 3000;
  for (unsigned seed = 0; seed < 6; ++seed) {
    Loop with, without;
    without.forget_what_was();
    std::mt19937 random(seed);
    for (int i = 0; i < ops; ++i) {
      const std::size_t which = random() % 4;
      const std::uint64_t buffer = random() % Loop::buffers;
      const Effect effect = random() % 3 == 0   ? Effect::read_write
                            : random() % 3 == 0 ? Effect::overwrite
                                                : Effect::read;
      for (Loop* loop : {&with, &without}) loop->touch_by(which, buffer, effect);
    }
    ASSERT_GT(without.moves(), ops / 4) << "memory was short";
    EXPECT_LE(static_cast<double>(with.moves()), 1.05 * static_cast<double>(without.moves()))
        << "seed " << seed;
    EXPECT_TRUE(with.device.complaints().empty()) << with.device.complaints().front();
  }
}

}  // namespace
}  // namespace pooch::runtime
