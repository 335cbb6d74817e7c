// A chain whose first two maps are swapped: ops 0 to 3 make a map each, ops 4 to 7 read them in reverse. Each
// map lies in a range of its own.
#include "runtime/execution/alias.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/memory/host_wait.h"
#include "runtime/script/layout.h"
#include "tests/support/chain.h"
#include "tests/support/faulty_device.h"
#include "tests/support/ladder.h"

namespace pooch::runtime {
namespace {

using test::Fault;
using test::FaultyDevice;
using test::OpenDevice;

constexpr int maps = 4, ops = 2 * maps, swapped = 2;
constexpr std::uint64_t map_bytes = 6 * MiB;
constexpr double move_us = 100;

class Program {
 public:
  using Admission = AliasMode::Admission;

  // `fault`: planted once faulty.strike_at() was called.
  explicit Program(Fault fault = Fault::lost_wait) : faulty(device, fault, ~std::uint64_t{0}) {
    for (std::uint32_t map = 0; map < maps; ++map) {
      ranges.push_back(&residency.open(base_of(map), map_bytes, AllocationId{map + 1}, map_bytes));
      phase.buffers[map].bytes = phase.versions[map].bytes = map_bytes;
    }
    auto compiled = Script::compile(test::swapping_in_chain(phase, swapped), phase, 0);
    EXPECT_TRUE(compiled) << compiled.error().message;
    script.emplace(std::move(*compiled));
  }
  static Address base_of(std::uint32_t map) {
    return Address{(std::uint64_t{1} << 45) + map * std::uint64_t{64} * MiB};
  }
  static std::int32_t reader(std::uint32_t map) { return test::reader_in_chain(maps, static_cast<int>(map)); }

  AliasMode::Residents residents() {
    AliasMode::Residents all{{{&*script, &phase, {{0}, {1}, {2}, {3}}}}, ranges, {}};
    for (const Range* range : ranges) all.described.push_back({range->bytes});
    return all;
  }
  PlanLayout layout() {
    const AliasMode::Residents all = residents();
    const auto items = items_of(places_of(all.phases, all.described, pool.cap()), all.phases);
    return {{phase.id}, items, lay_out(items, 0, move_us), most_at_once(items)};
  }
  // The first map comes back elsewhere, where the second one was before.
  PlanLayout wandering() {
    PlanLayout made = layout();
    made.layout.frames = {map_bytes, map_bytes, map_bytes};
    made.layout.frames_of = {{{0}, {1}}, {{1}, {1}}, {{2}}, {{0}}};
    EXPECT_EQ(what_is_wrong(made), "");
    return made;
  }
  Status build(const PlanLayout& how) { return alias.build(how, residents(), held); }

  // --- the program

  std::vector<ChunkUse> uses(std::uint32_t map, bool writes) {
    std::vector<ChunkUse> all;
    for (Chunk& chunk : ranges[map]->chunks) all.push_back({&chunk, !writes, writes});
    return all;
  }
  Result<Admission> admit(std::uint32_t map, std::int32_t step, const Script* of) {
    const tracker::Operand operand{AllocationId{map + 1}, base_of(map), 0, map_bytes,
                                   Effect::read_write,    true,         0, ranges[map]};
    return alias.admit(of, step, {&operand, 1});
  }
  Result<Admission> admit(std::uint32_t map, std::int32_t step) { return admit(map, step, &*script); }
  Result<Admission> fetch(std::uint32_t map) {
    return alias.fetch(&*script, reader(map), ranges[map]->chunks.front());
  }
  void launch(const std::vector<ChunkUse>& used, const std::function<void()>& work) {
    const StreamIndex in = order.index(stream);
    for (const ChunkUse& use : used) ASSERT_TRUE(order.follow(in, use.chunk->before));
    device.launch(stream, work);
    residency.used(used, order.launched(in), ++clock);
  }
  std::uint64_t* word(std::uint32_t map, std::uint64_t at) {
    return reinterpret_cast<std::uint64_t*>(device.translate(base_of(map) + at, sizeof(std::uint64_t)));
  }
  void write(std::uint32_t map, std::uint64_t number) {
    const auto used = uses(map, /*writes=*/true);
    launch(used, [this, map, number] {
      for (std::uint64_t at = 0; at < map_bytes; at += MiB)
        if (std::uint64_t* const to = word(map, at)) *to = number + at;
    });
    for (const ChunkUse& use : used) use.chunk->live = true;
  }
  void read(std::uint32_t map, std::uint64_t number) {
    launch(uses(map, /*writes=*/false), [this, map, number] {
      for (std::uint64_t at = 0; at < map_bytes; at += MiB)
        if (const std::uint64_t* const from = word(map, at); from == nullptr || *from != number + at) ++wrong;
    });
  }
  void save(std::uint32_t map) {
    for (Chunk& chunk : ranges[map]->chunks) ASSERT_TRUE(residency.save(chunk));
  }
  // The host waits where a chunk that moves is in use still.
  template <class Ask>
  Admission once_idle(Ask&& ask) {
    for (;;) {
      const auto given = ask();
      EXPECT_TRUE(given) << given.error().message;
      if (!given || *given != Admission::busy) return *given;
      const Marks busy = alias.busy();
      EXPECT_TRUE(await(faulty, order, busy, held));
    }
  }
  // Forward, and backward down to the reader of this map.
  void iterate(std::uint64_t number, std::uint32_t down_to = 0) {
    for (std::uint32_t map = 0; map < maps; ++map) {
      ASSERT_EQ(once_idle([&] { return admit(map, static_cast<std::int32_t>(map)); }), Admission::done);
      write(map, number + map);
      if (map < swapped) save(map);
    }
    for (std::uint32_t map = maps; map-- > down_to;) {
      if (map < swapped) {
        ASSERT_EQ(*fetch(map), Admission::done);
      }
      ASSERT_EQ(*admit(map, reader(map)), Admission::done);
      read(map, number + map);
      residency.close(*ranges[map], {});
      residency.open(base_of(map), map_bytes, AllocationId{map + 1}, map_bytes);
    }
  }
  // Of a layout that maps the first one anew.
  void iterate_wandering(std::uint64_t number) {
    iterate(number, /*down_to=*/1);
    ASSERT_EQ(once_idle([&] { return fetch(0); }), Admission::done);
    read(0, number);
    residency.close(*ranges[0], {});
    residency.open(base_of(0), map_bytes, AllocationId{1}, map_bytes);
  }
  // Each map is wherever it may be, with its content. It is gone then.
  void expect_content(std::uint64_t number) {
    for (std::uint32_t map = 0; map < maps; ++map) {
      ASSERT_TRUE(residency.make_resident(uses(map, /*writes=*/false)));
      read(map, number + map);
      device.drain();
      for (Chunk& chunk : ranges[map]->chunks) {
        residency.begin_drop(chunk);
        ASSERT_TRUE(residency.finish_eviction(chunk));
      }
    }
    EXPECT_EQ(wrong, 0);
  }
  // The first one comes back into its frames.
  void expect_first_map(std::uint64_t number) {
    ASSERT_EQ(*admit(0, 0), Admission::done);
    ASSERT_EQ(*fetch(0), Admission::done);
    read(0, number);
    device.drain();
    EXPECT_EQ(wrong, 0);
  }
  void write_all(std::uint64_t number) {
    for (std::uint32_t map = 0; map < maps; ++map) {
      ASSERT_TRUE(residency.make_resident(uses(map, /*writes=*/true)));
      write(map, number + map);
    }
  }

  OpenDevice device{512 * MiB};
  FaultyDevice faulty;
  StreamOrder order{faulty};
  HandlePool pool{faulty, 256 * MiB};
  HostArena host{faulty, order, 256 * MiB};
  Residency residency{faulty, order, pool, host, *device.create_stream(), *device.create_stream()};
  Departures departures{faulty, order, pool, residency};
  AliasMode alias{faulty, order, pool, residency, departures};
  SessionMutex mutex;
  Held held{mutex};
  const StreamHandle stream = *device.create_stream();
  PhaseProfile phase = test::chain_of(maps, 100);
  std::optional<Script> script;
  std::vector<Range*> ranges;
  std::uint64_t clock = 0;
  int wrong = 0;
};

class Aliased : public testing::Test, protected Program {
 protected:
  ~Aliased() override {
    device.drain();
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  }
};

TEST_F(Aliased, MapsWhoseStaysDoNotMeetShareFramesAndKeepTheirContent) {
  ASSERT_TRUE(build(layout()));
  EXPECT_TRUE(alias.serves(*script));
  EXPECT_EQ(alias.chunks(), 4u) << "a map of less than a piece is one chunk";
  EXPECT_EQ(alias.frames(), 2u);
  for (std::uint64_t iteration = 1; iteration <= 3; ++iteration) iterate(100 * iteration);
  device.drain();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(alias.moves(), 0u);
  EXPECT_EQ(device.created_bytes(), 2 * map_bytes);
}

TEST_F(Aliased, WhatLivesGoesToTheHostWhenALayoutIsTakenAndComesBack) {
  write_all(7);
  ASSERT_TRUE(build(layout()));
  EXPECT_EQ(pool.in_use(), 2 * map_bytes);
  expect_first_map(7);
  ASSERT_TRUE(alias.dismantle());
  EXPECT_FALSE(alias.built());
  expect_content(7);
}

TEST_F(Aliased, ALaterLayoutIsForTheSamePieces) {
  ASSERT_GT(ranges[0]->chunks.size(), 1u);
  write_all(7);
  ASSERT_TRUE(build(layout()));
  ASSERT_EQ(ranges[0]->chunks.size(), 1u);
  ASSERT_TRUE(alias.dismantle());
  ASSERT_TRUE(build(layout()));
  expect_first_map(7);
  ASSERT_TRUE(alias.dismantle());
  expect_content(7);
}

TEST_F(Aliased, WhoIsInItsFramesWhenALayoutEndsKeepsThem) {
  ASSERT_TRUE(build(layout()));
  iterate(100, /*down_to=*/2);
  ASSERT_EQ(*fetch(1), Admission::done);
  device.drain();
  ASSERT_TRUE(alias.dismantle());
  EXPECT_EQ(ranges[1]->chunks.front().state, ChunkState::resident);
  EXPECT_EQ(ranges[0]->chunks.front().state, ChunkState::evicted);
  EXPECT_EQ(pool.in_use(), device.created_bytes());
  for (const std::uint32_t map : {0u, 1u}) {
    ASSERT_TRUE(residency.make_resident(uses(map, /*writes=*/false)));
    read(map, 100 + map);
  }
  device.drain();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Aliased, AMapOutsideOfItsStaysIsUnforeseen) {
  ASSERT_TRUE(build(layout()));
  EXPECT_EQ(*admit(0, 3), Admission::unforeseen) << "it is away then";
  ASSERT_EQ(*admit(3, 3), Admission::done);
  EXPECT_EQ(*admit(3, 3), Admission::done);
  EXPECT_EQ(*admit(0, 0, nullptr), Admission::done)
      << "between iterations is ahead of the next one's first op";
  Range& other = residency.open(base_of(9), map_bytes, AllocationId{9}, map_bytes);
  const tracker::Operand beside{AllocationId{9}, base_of(9), 0, map_bytes, Effect::read, true, 0, &other};
  EXPECT_EQ(*alias.admit(&*script, 3, {&beside, 1}), Admission::done)
      << "the layout has nothing to do with it";
}

TEST_F(Aliased, NobodyGetsFramesWhoseContentWouldBeLost) {
  ASSERT_TRUE(build(wandering()));
  ASSERT_EQ(*admit(0, 0), Admission::done);
  write(0, 7);  // and is not saved
  ASSERT_EQ(*admit(1, 1), Admission::done);
  EXPECT_EQ(*admit(3, 3), Admission::unforeseen);
  device.drain();
  ASSERT_TRUE(alias.dismantle());
  read(0, 7);
  device.drain();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Aliased, AChunkThatIsInUseIsMappedElsewhereOnceTheDeviceIsDoneWithIt) {
  ASSERT_TRUE(build(wandering()));
  ASSERT_EQ(*admit(0, 0), Admission::done);
  write(0, 7);
  save(0);
  device.block(stream);
  read(0, 7);
  ASSERT_EQ(*fetch(0), Admission::busy);
  EXPECT_FALSE(alias.busy().empty());
  EXPECT_EQ(*admit(0, reader(0)), Admission::busy);
  EXPECT_EQ(alias.moves(), 0u);
  device.unblock(stream);
  device.drain();
  ASSERT_EQ(*fetch(0), Admission::done);
  EXPECT_EQ(alias.moves(), 1u);
  read(0, 7);
  device.drain();
  EXPECT_EQ(wrong, 0);
}

TEST_F(Aliased, AChunkWandersInEveryIterationAndItsContentGoesAlong) {
  ASSERT_TRUE(build(wandering()));
  for (std::uint64_t iteration = 1; iteration <= 3; ++iteration) {
    iterate_wandering(100 * iteration);
    device.drain();
    EXPECT_EQ(alias.moves(), 2 * iteration - 1);
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(device.created_bytes(), 3 * map_bytes);
}

// How often the fault can strike in three iterations, and how often somebody notices.
std::pair<int, int> struck_and_found(Fault fault) {
  int struck = 0, found = 0;
  for (std::uint64_t n = 1;; ++n) {
    testing::TestPartResultArray failures;
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    Program program(fault);
    EXPECT_TRUE(program.build(program.wandering()));
    program.faulty.strike_at(n);
    for (std::uint64_t iteration = 1; iteration <= 3; ++iteration) program.iterate_wandering(100 * iteration);
    program.device.drain();
    if (!program.faulty.struck()) return {struck, found};
    ++struck;
    found += program.wrong > 0 || !program.device.complaints().empty() || failures.size() > 0;
  }
}

TEST(AliasedWithAFault, AFrameThatIsSharedTooEarlyIsFound) {
  const auto [struck, found] = struck_and_found(Fault::lost_wait);
  EXPECT_GT(struck, 10) << "waits of streams";
  EXPECT_GE(found, 3) << "of " << struck << ": others order the same work";
}

TEST(AliasedWithAFault, AMappingWhileItsAddressesAreInUseIsFound) {
  const auto [struck, found] = struck_and_found(Fault::hasty_reuse);
  EXPECT_GT(struck, 10) << "questions whether the device is done";
  EXPECT_GE(found, 3) << "of " << struck;
}

TEST_F(Aliased, ALayoutIsForTheSamePhasesAndPlacesAndFits) {
  const PlanLayout good = layout();
  EXPECT_TRUE(alias.fits(good, residents()));
  PlanLayout other = good;
  other.phases = {"b1"};
  EXPECT_EQ(alias.fits(other, residents()).error().message, "the layout is for other phases");
  other = good;
  other.items[2].held[0].to += 1;
  EXPECT_EQ(alias.fits(other, residents()).error().message, "the layout is for other places");
  EXPECT_EQ(build(other).error().code, ErrorCode::out_of_memory);
  ASSERT_TRUE(pool.set_outside(pool.cap() - 10 * MiB));
  EXPECT_EQ(alias.fits(good, residents()).error().message, "the layout needs 4.00 MiB more memory")
      << "8 MiB are there beside the page for what is rounded";
  EXPECT_FALSE(alias.built());
}

TEST_F(Aliased, AFrameThatTheDeviceDoesNotHaveLeavesEverythingAsItWas) {
  write_all(7);
  device.take_outside(*device.free_bytes() - 2 * MiB);
  testing::internal::CaptureStderr();  // that it has less than the cap
  const auto built = build(layout());
  testing::internal::GetCapturedStderr();
  ASSERT_FALSE(built);
  EXPECT_EQ(built.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(alias.wanted_frame(), map_bytes);
  EXPECT_FALSE(alias.built());
  expect_content(7);
}

TEST_F(Aliased, NoLayoutIsTakenWhileACallUsesAChunk) {
  write_all(7);
  ranges[1]->chunks.front().pins = 1;
  EXPECT_EQ(build(layout()).error().message, "a chunk is in use");
  EXPECT_EQ(alias.wanted_frame(), 0u);
  ranges[1]->chunks.front().pins = 0;
  expect_content(7);
}

TEST_F(Aliased, WhatAnotherThreadUsesWhileALayoutIsTakenStays) {
  write_all(7);
  bool met = false;
  device.while_waiting = [&] {
    if (std::exchange(met, true)) return;
    const Held other(mutex);
    write(2, 9);
  };
  EXPECT_EQ(build(layout()).error().message, "another thread has used a chunk meanwhile");
  device.drain();
  read(2, 9);
  device.drain();
  EXPECT_EQ(wrong, 0);
}

// The last map lies in its range and in another in turn: both are mapped to its frames.
TEST_F(Aliased, ABufferInTwoRangesInTurnIsInOneOfThemAtATime) {
  ranges.push_back(&residency.open(base_of(maps), map_bytes, AllocationId{maps + 1}, map_bytes));
  AliasMode::Residents all{{{&*script, &phase, {{0}, {1}, {2}, {3, 4}}}}, ranges, {}};
  for (const Range* range : ranges) all.described.push_back({range->bytes});
  const auto items = items_of(places_of(all.phases, all.described, pool.cap()), all.phases);
  ASSERT_EQ(items.size(), 4u);
  ASSERT_TRUE(alias.build({{phase.id}, items, lay_out(items, 0, move_us), most_at_once(items)}, all, held));
  EXPECT_EQ(alias.chunks(), 5u);
  EXPECT_EQ(ranges[3]->chunks.front().frames, ranges[4]->chunks.front().frames);
  for (std::uint64_t iteration = 1; iteration <= 4; ++iteration) {
    const std::uint32_t last = 3 + iteration % 2;
    const auto step = [](std::uint32_t map) { return static_cast<std::int32_t>(std::min(map, 3u)); };
    for (const std::uint32_t map : {0u, 1u, 2u, last}) {
      ASSERT_EQ(*admit(map, step(map)), Admission::done);
      write(map, 100 * iteration + map);
      if (map < swapped) save(map);
    }
    for (const std::uint32_t map : {last, 2u, 1u, 0u}) {
      if (map < swapped) {
        ASSERT_EQ(*fetch(map), Admission::done);
      }
      ASSERT_EQ(*admit(map, ops - 1 - step(map)), Admission::done);
      read(map, 100 * iteration + map);
      residency.close(*ranges[map], {});
      residency.open(base_of(map), map_bytes, AllocationId{map + 1}, map_bytes);
    }
  }
  device.drain();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(alias.moves(), 0u);
  EXPECT_EQ(device.created_bytes(), 2 * map_bytes);
  ASSERT_TRUE(alias.dismantle());
}

}  // namespace
}  // namespace pooch::runtime
