// Verification over the lazy device: maps are dropped, their memory goes elsewhere, a "replay" writes them
// again, rightly or not.
#include "runtime/execution/verification.h"

#include <gtest/gtest.h>

#include <cstring>

#include "runtime/memory/host_wait.h"
#include "runtime/placement/demand.h"
#include "runtime/placement/departures.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
constexpr std::uint64_t map_bytes = 6 * MiB - 12;
constexpr std::uint32_t maps = 3;

class Machine {
 public:
  Machine(Verify how, unsigned seed, std::uint64_t host_budget = 64 * MiB)
      : device_(256 * MiB, seed),
        limits_{64 * MiB, host_budget},
        order_(device_),
        pool_(device_, limits_.cap),
        host_(device_, order_, host_budget),
        temporaries_(Address{std::uint64_t{1} << 46}, 64 * MiB),
        out_(*device_.create_stream()),
        in_(*device_.create_stream()),
        compute_(*device_.create_stream()),
        residency_(device_, order_, pool_, host_, out_, in_),
        demand_(device_, order_, pool_, host_, residency_, foresight_, Policy::demand),
        departures_(device_, order_, pool_, residency_),
        placement_(limits_, pool_, residency_, departures_, demand_),
        held_(mutex_),
        verification_(how, host_budget, {device_, order_, residency_, host_, placement_, temporaries_}) {
    order_.set_eager(true);
    trust_ = {std::vector<std::uint8_t>(maps, 0), std::vector<bool>(maps, true),
              std::vector<bool>(maps, false)};
    for (std::uint32_t map = 0; map < maps; ++map)
      ranges_.push_back(&residency_.open(Address{(std::uint64_t{1} << 45) + map * 8 * MiB}, 6 * MiB,
                                         AllocationId{map + 1}, map_bytes));
    const auto before = static_cast<std::uint64_t>(*device_.create_stream());
    EXPECT_TRUE(verification_.prepare(held_));
    results_ = StreamHandle{before + 2};  // the second that it made
  }
  ~Machine() {
    device_.drain();
    EXPECT_TRUE(device_.complaints().empty()) << device_.complaints().front();
  }

  Status prepare() { return verification_.prepare(held_); }
  void begin() { verification_.begin(trust_, 0); }
  // An op, or a replay, writes the map; `flipped` spoils its last byte.
  void write(std::uint32_t map, unsigned char value, bool flipped = false) {
    const auto uses = place(map, Effect::overwrite);
    for (const ChunkUse& use : uses) {
      const bool last = flipped && use.chunk == uses.back().chunk;
      device_.launch(compute_,
                     [this, address = use.chunk->address, bytes = use.chunk->occupied, value, last] {
                       std::byte* const memory = device_.translate(address, bytes);
                       if (memory == nullptr) return;
                       std::memset(memory, value, bytes);
                       if (last) memory[bytes - 1] ^= std::byte{1};
                     });
    }
    settle(uses);
    for (const ChunkUse& use : uses) use.chunk->live = true;
  }
  // Dropped; others fill its memory.
  void drop(std::uint32_t map) {
    const std::string name = "map " + std::to_string(map);
    ASSERT_TRUE(verification_.dropping(map, name, *ranges_[map], {{0, map_bytes}}));
    Marks marks;
    for (Chunk& chunk : ranges_[map]->chunks) {
      residency_.begin_drop(chunk);
      marks.add(chunk.uses);
    }
    ASSERT_TRUE(await(device_, order_, marks, held_));
    for (Chunk& chunk : ranges_[map]->chunks) ASSERT_TRUE(residency_.finish_eviction(chunk));
  }
  Status replay(std::uint32_t map, unsigned char value, bool flipped = false) {
    write(map, value, flipped);
    if (const auto noted = verification_.restored(map, "an op"); !noted) return noted;
    return settle();
  }
  using Late = Verification::Late;
  Status settle(Late late = Late::where_known) { return verification_.settle(late, held_); }
  Status cycle(std::uint32_t map, bool flipped = false) {
    write(map, static_cast<unsigned char>(++value_));
    drop(map);
    return replay(map, static_cast<unsigned char>(value_), flipped);
  }
  // Does an op that reads the map see what was last written by cycle()?
  bool right(std::uint32_t map) {
    bool same = true;
    for (const ChunkUse& use : place(map, Effect::read)) {
      device_.launch(compute_, [&same, this, chunk = use.chunk] {
        const std::byte* const memory = device_.translate(chunk->address, chunk->occupied);
        for (std::uint64_t i = 0; memory != nullptr && i < chunk->occupied; ++i)
          same &= memory[i] == static_cast<std::byte>(value_);
      });
    }
    device_.drain();
    return same;
  }
  std::uint64_t host_waits() const { return held_.releases(); }
  StreamHandle results_stream() const { return results_; }
  // The host waits for an op that reads the map.
  Status read(std::uint32_t map) {
    const auto uses = place(map, Effect::read);
    device_.launch(compute_, [] {});
    settle(uses);
    Marks done;
    done.add(order_.latest(order_.index(compute_)));
    return await(device_, order_, done, held_);
  }
  bool pinned() const {
    for (const Range* range : ranges_)
      for (const Chunk& chunk : range->chunks)
        if (chunk.pins != 0) return true;
    return false;
  }
  void free(std::uint32_t map) {
    verification_.forget(map);
    residency_.close(*ranges_[map], {});
  }

  Verification& verification() { return verification_; }
  MapTrust& trust() { return trust_; }
  LazyDevice& device() { return device_; }
  StreamOrder& order() { return order_; }
  std::uint64_t locked() const { return host_.locked_bytes(); }

 private:
  std::vector<ChunkUse> place(std::uint32_t map, Effect effect) {
    const tracker::Operand operand{AllocationId{map + 1}, ranges_[map]->base, 0, map_bytes, effect, true, 0,
                                   ranges_[map]};
    std::vector<ChunkUse> uses;
    EXPECT_TRUE(placement_.place("a test", {&operand, 1}, uses, held_));
    for (const ChunkUse& use : uses) EXPECT_TRUE(order_.follow(order_.index(compute_), use.chunk->before));
    return uses;
  }
  void settle(const std::vector<ChunkUse>& uses) {
    residency_.used(uses, order_.launched(order_.index(compute_)), placement_.clock());
  }

  LazyDevice device_;
  Limits limits_;
  StreamOrder order_;
  HandlePool pool_;
  HostArena host_;
  AddressSpace temporaries_;
  StreamHandle out_, in_, compute_;
  Residency residency_;
  Foresight foresight_;
  Demand demand_;
  Departures departures_;
  Placement placement_;
  SessionMutex mutex_;
  Held held_;
  Verification verification_;
  MapTrust trust_;
  std::vector<Range*> ranges_;
  unsigned value_ = 0;
  StreamHandle results_{};
};

TEST(Verification, EqualContentProvesAMapInTwoIterations) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Machine machine(Verify::sample, seed);
    for (int iteration = 0; iteration < 2; ++iteration) {
      machine.begin();
      for (std::uint32_t map = 0; map < maps; ++map) {
        ASSERT_TRUE(machine.cycle(map));
        ASSERT_TRUE(machine.right(map)) << "seed " << seed;
      }
    }
    EXPECT_EQ(machine.trust().compared, (std::vector<std::uint8_t>{2, 2, 2}));
    EXPECT_EQ(machine.verification().counts().verified, 2 * maps);
    EXPECT_EQ(machine.verification().counts().mismatches, 0u);
    EXPECT_GT(machine.locked(), 0u) << "copies were made";
    EXPECT_FALSE(machine.pinned());
  }
}

// Libraries may choose another kernel for another size.
TEST(Verification, WhereSizesChangeEachReplayIsCompared) {
  Machine machine(Verify::sample, 1);
  machine.trust().never_enough = true;
  constexpr int iterations = 5;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) ASSERT_TRUE(machine.cycle(map));
  }
  ASSERT_TRUE(machine.settle(Verification::Late::await));
  EXPECT_EQ(machine.verification().counts().verified, iterations * maps);
  machine.begin();
  ASSERT_TRUE(machine.cycle(0, /*flipped=*/true));
  EXPECT_FALSE(machine.settle(Verification::Late::await));
}

TEST(Verification, AMapThatIsNotProvenGetsItsCopyBack) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    Machine machine(Verify::sample, seed);
    machine.begin();
    ASSERT_TRUE(machine.cycle(0));
    machine.begin();
    testing::internal::CaptureStderr();
    ASSERT_TRUE(machine.cycle(0, /*flipped=*/true));
    EXPECT_EQ(
        testing::internal::GetCapturedStderr(),
        "pooch: warning: map 0, made again by an op, is not what it was; its copy is put back, and it is "
        "swapped from now on\n");
    EXPECT_TRUE(machine.right(0)) << "seed " << seed;
    EXPECT_EQ(machine.verification().take_refused(), std::vector<std::uint32_t>{0});
    EXPECT_EQ(machine.verification().counts().mismatches, 1u);
    EXPECT_FALSE(machine.verification().failure());
    ASSERT_TRUE(machine.cycle(1));
    EXPECT_TRUE(machine.right(1));
    EXPECT_FALSE(machine.pinned());
  }
}

TEST(Verification, WithoutACopyNothingGoesOnWithADoubtfulValue) {
  Machine machine(Verify::sample, 1, /*host_budget=*/4 * MiB);
  machine.begin();
  ASSERT_TRUE(machine.cycle(0));
  const auto wrong = machine.cycle(1, /*flipped=*/true);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "map 1, made again by an op, is not what it was");
  EXPECT_FALSE(machine.settle()) << "it is not forgotten";
}

TEST(Verification, SampleComparesAProvenMapNowAndThenInTurn) {
  Machine machine(Verify::sample, 3);
  for (int iteration = 0; iteration < 2; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) ASSERT_TRUE(machine.cycle(map));
  }
  const std::uint64_t locked = machine.locked();
  constexpr std::uint64_t interval = Verification::sample_interval;
  for (std::uint64_t iteration = 3; iteration <= 2 * maps * interval; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) ASSERT_TRUE(machine.cycle(map));
    ASSERT_TRUE(machine.settle(Machine::Late::await));
    EXPECT_EQ(machine.verification().counts().verified, 2 * maps + iteration / interval);
  }
  EXPECT_EQ(machine.locked(), locked);
  // A map that is wrong from now on is found once all had their turn.
  bool found = false;
  for (std::uint64_t iteration = 0; iteration < maps * interval && !found; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps && !found; ++map) found = !machine.cycle(map, map == 1);
    found |= !machine.settle(Machine::Late::await);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(machine.verification().failure());
}

// The iteration begins in which a proven map is compared: that map.
std::uint32_t begin_sampling(Machine& machine) {
  for (std::uint64_t iteration = 1; iteration < Verification::sample_interval; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) EXPECT_TRUE(machine.cycle(map));
  }
  machine.begin();
  return machine.trust().turn;
}

// The host's lead over the device is worth more than to hear of a difference some ops earlier.
TEST(Verification, TheHostGoesOnWhileAProvenMapIsSampled) {
  Machine machine(Verify::sample, 7);
  const std::uint32_t sampled = begin_sampling(machine);
  const std::uint64_t verified = machine.verification().counts().verified;
  const std::uint64_t before = machine.host_waits();
  machine.write(sampled, 1);
  machine.drop(sampled);
  const std::uint64_t waited = machine.host_waits() - before;  // to be dropped, not to be compared
  ASSERT_TRUE(machine.replay(sampled, 1, /*flipped=*/true)) << "nothing is known yet";
  EXPECT_EQ(machine.host_waits() - before, waited);
  EXPECT_EQ(machine.verification().counts().verified, verified);
  EXPECT_FALSE(machine.pinned());
  machine.free(sampled);  // its iteration goes on, and ends
  machine.begin();
  const auto wrong = machine.settle(Machine::Late::await);  // before the program sees what came of it
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message,
            "map " + std::to_string(sampled) + ", made again by an op, is not what it was");
  EXPECT_EQ(machine.verification().counts().verified, verified + 1);
  EXPECT_FALSE(machine.settle()) << "it is not forgotten";
}

// Their copies queue up behind what is being evicted.
TEST(Verification, AMapsNextUseDoesNotWaitForTheCopiesOfDigests) {
  Machine machine(Verify::sample, 8);
  const std::uint32_t sampled = begin_sampling(machine);
  const std::uint64_t verified = machine.verification().counts().verified;
  machine.device().block(machine.results_stream());
  ASSERT_TRUE(machine.cycle(sampled));
  ASSERT_TRUE(machine.read(sampled)) << "the device gets there";
  ASSERT_TRUE(machine.settle());
  EXPECT_EQ(machine.verification().counts().verified, verified) << "the digests are still on their way";
  machine.device().unblock(machine.results_stream());
  ASSERT_TRUE(machine.settle(Machine::Late::await));
  EXPECT_EQ(machine.verification().counts().verified, verified + 1);
}

TEST(Verification, AllComparesEveryMap) {
  Machine machine(Verify::all, 4);
  for (int iteration = 0; iteration < 4; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) ASSERT_TRUE(machine.cycle(map));
  }
  EXPECT_EQ(machine.verification().counts().verified, 4 * maps);
}

TEST(Verification, OffComparesNone) {
  Machine machine(Verify::off, 4);
  for (int iteration = 0; iteration < 4; ++iteration) {
    machine.begin();
    for (std::uint32_t map = 0; map < maps; ++map) ASSERT_TRUE(machine.cycle(map, /*flipped=*/true));
  }
  EXPECT_EQ(machine.verification().counts().verified, 0u);
  EXPECT_FALSE(machine.right(maps - 1)) << "the fault is one";
}

TEST(Verification, WhatEndsOrIsNotMadeAgainLeavesNothingBehind) {
  Machine machine(Verify::all, 5, /*host_budget=*/16 * MiB);
  for (int iteration = 0; iteration < 6; ++iteration) {
    machine.begin();
    machine.write(0, 1);
    machine.drop(0);
    machine.write(1, 1);
    machine.drop(1);
    if (iteration == 3) machine.free(0);
    if (iteration < 3) {
      ASSERT_TRUE(machine.replay(1, 1));
    }
    machine.verification().end();
    EXPECT_FALSE(machine.pinned());
  }
  EXPECT_LE(machine.locked(), 16 * MiB);
}

TEST(Verification, ItsMemoryGoesToOthersWhereItIsTheLast) {
  Machine machine(Verify::all, 6);
  EXPECT_TRUE(machine.verification().give_up_memory());
  EXPECT_FALSE(machine.verification().give_up_memory());
  machine.begin();
  ASSERT_TRUE(machine.cycle(0, /*flipped=*/true)) << "nothing is compared meanwhile";
  EXPECT_EQ(machine.verification().counts().verified, 0u);
  ASSERT_TRUE(machine.prepare());
  ASSERT_TRUE(machine.cycle(1));
  EXPECT_EQ(machine.verification().counts().verified, 1u);
}

TEST(Verification, WhereTheProgramHoldsUpAStreamTheHostDoesNotWait) {
  Machine machine(Verify::all, 7);
  machine.begin();
  const StreamHandle held = *machine.device().create_stream();
  machine.device().block(held);
  machine.order().note_host_blocking(machine.order().index(held));
  ASSERT_TRUE(machine.cycle(0));
  EXPECT_EQ(machine.verification().counts().verified, 0u);
  machine.device().unblock(held);
}

}  // namespace
}  // namespace pooch::runtime
