#include "tracker/tracker.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

namespace pooch::tracker {
namespace {

TEST(Allocations, NeedIsThePeakOfWhatIsAliveAtOnce) {
  Allocations allocations;
  allocations.add(Address{100}, 50, true, true);
  allocations.add(Address{200}, 30, false, true);
  allocations.add(Address{300}, 1000, false, /*by_program=*/false);
  allocations.take(Address{100});
  allocations.add(Address{100}, 10, true, true);
  EXPECT_EQ(allocations.need_bytes(), 80u);
  EXPECT_EQ(allocations.need_managed_bytes(), 50u);
}

TEST(Allocations, FindTheOneThatContainsAnAddress) {
  Allocations allocations;
  allocations.add(Address{100}, 50, true, true);
  EXPECT_EQ(allocations.containing(Address{149})->base, Address{100});
  EXPECT_EQ(allocations.containing(Address{150}), nullptr);
  EXPECT_EQ(allocations.containing(Address{99}), nullptr);
  EXPECT_FALSE(allocations.take(Address{101}));
}

// Every byte's producer, kept the obvious way.
TEST(Versions, AgreeWithAnArrayOfProducersOnRandomWrites) {
  constexpr std::uint64_t size = 40;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Versions versions;
    std::vector<std::uint64_t> bytes(size, 0);
    for (std::uint64_t op = 1; op < 60; ++op) {
      const std::uint64_t offset = random() % size, length = 1 + random() % (size - offset);
      const bool kill = random() % 4 == 0;
      if (kill)
        versions.kill(offset, length);
      else
        versions.write(offset, length, Producer::step(op - 1));
      std::fill_n(bytes.begin() + static_cast<long>(offset), length, kill ? 0 : op);

      std::vector<std::uint64_t> seen(size, 0);
      std::uint64_t end = 0;
      for (const Version& v : versions.all()) {
        ASSERT_GE(v.offset, end) << "regions are disjoint and in order";
        end = v.offset + v.bytes;
        std::fill_n(seen.begin() + static_cast<long>(v.offset), v.bytes, v.producer.index() + 1);
      }
      ASSERT_EQ(seen, bytes) << "seed " << seed << " op " << op;
      const std::uint64_t probe = random() % size, width = 1 + random() % (size - probe);
      const bool live =
          std::any_of(bytes.begin() + static_cast<long>(probe),
                      bytes.begin() + static_cast<long>(probe + width), [](auto b) { return b != 0; });
      ASSERT_EQ(versions.live(probe, width), live);
    }
  }
}

TEST(Tracker, CutsAnAccessAtTheEndOfItsAllocationAndLeavesOutStrangers) {
  Tracker tracker;
  const auto id = tracker.allocated(Address{1000}, 100, true, true).id;
  const Access accesses[] = {{Address{1040}, 500, Effect::overwrite},
                             {Address{9000}, 10, Effect::read},
                             {Address{1000}, 0, Effect::read}};
  Op op;
  tracker.resolve({"f", OpKind::elementwise, StreamHandle::legacy, accesses}, op);
  ASSERT_EQ(op.operands.size(), 1u);
  EXPECT_EQ(op.operands[0].allocation, id);
  EXPECT_EQ(op.operands[0].offset, 40u);
  EXPECT_EQ(op.operands[0].bytes, 60u);
  EXPECT_FALSE(Tracker::live(op.operands[0], 0, 100)) << "nothing was launched yet";
  tracker.launched(op);
  EXPECT_TRUE(Tracker::live(op.operands[0], 0, 100));
  EXPECT_FALSE(Tracker::live(op.operands[0], 0, 40));
}

TEST(Tracker, AnAddressBelongsToWhatIsAllocatedThereNow) {
  Tracker tracker;
  const Access access{Address{1040}, 10, Effect::read};
  const auto owner = [&] {
    Op op;
    tracker.resolve({"f", OpKind::elementwise, StreamHandle::legacy, {&access, 1}}, op);
    return op.operands.empty() ? std::nullopt : std::optional(op.operands[0].allocation);
  };
  EXPECT_EQ(owner(), std::nullopt);
  const auto first = tracker.allocated(Address{1000}, 100, true, true).id;
  EXPECT_EQ(owner(), first);
  EXPECT_EQ(owner(), first) << "asked again";
  tracker.freed(Address{1000});
  EXPECT_EQ(owner(), std::nullopt);
  const auto second = tracker.allocated(Address{1020}, 100, true, true).id;
  EXPECT_EQ(owner(), second);
  tracker.freed(Address{1020});
  const auto third = tracker.allocated(Address{1020}, 100, true, true).id;
  EXPECT_EQ(owner(), third);
  EXPECT_NE(third, second);
}

TEST(Tracker, ScratchHasNoMeaningAfterwards) {
  Tracker tracker;
  tracker.allocated(Address{1000}, 100, true, true);
  const auto lives_after = [&](Effect effect) {
    const Access access{Address{1000}, 100, effect};
    Op op;
    tracker.resolve({"f", OpKind::elementwise, StreamHandle::legacy, {&access, 1}}, op);
    tracker.launched(op);
    return Tracker::live(op.operands[0], 0, 100);
  };
  EXPECT_TRUE(lives_after(Effect::overwrite));
  EXPECT_FALSE(lives_after(Effect::scratch));
}

// The host may wait inside of a call while another thread frees.
TEST(Tracker, WhatWasWrittenToMemoryThatHasEndedIsNobodys) {
  Tracker tracker;
  const Access access{Address{1000}, 100, Effect::overwrite};
  const auto resolved = [&] {
    tracker.allocated(Address{1000}, 100, true, true);
    Op op;
    tracker.resolve({"f", OpKind::elementwise, StreamHandle::legacy, {&access, 1}}, op);
    return op;
  };
  const Op late = resolved();
  tracker.freed(Address{1000});
  tracker.launched(late);
  EXPECT_FALSE(Tracker::live(late.operands[0], 0, 100));
  const Op next = resolved();
  tracker.launched(late);
  EXPECT_FALSE(Tracker::live(next.operands[0], 0, 100)) << "the next allocation at the address is another";
  EXPECT_FALSE(Tracker::live(late.operands[0], 0, 100));
}

// What an op finds where it reads and writes is a part of its form: how much there is of it is none.
TEST(Forms, SayWhichVersionsAreTouchedAsAWhole) {
  const auto form = [](std::uint64_t first, std::uint64_t second, std::uint64_t bytes,
                       OpKind kind = OpKind::blas) {
    Tracker tracker;
    tracker.allocated(Address{100}, 1000, true, true);
    tracker.allocated(Address{5000}, 1000, true, true);
    const auto run = [&](OpKind of, const std::vector<Access>& accesses) {
      Call call{"op", of, StreamHandle::legacy, accesses};
      call.traits = bytes;
      Op op;
      tracker.resolve(call, op);
      tracker.launched(op);
      return op;
    };
    run(OpKind::set, {{Address{100}, first, Effect::overwrite}});
    run(OpKind::set, {{Address{100} + first, second, Effect::overwrite}});
    return run(kind, {{Address{100}, bytes, Effect::overwrite}, {Address{5000}, bytes, Effect::read}})
        .form_key;
  };
  EXPECT_EQ(form(40, 60, 100), form(80, 120, 200)) << "all of two versions";
  EXPECT_EQ(form(40, 60, 70), form(80, 120, 140)) << "a part of the second";
  EXPECT_NE(form(40, 60, 100), form(40, 60, 70));
  EXPECT_NE(form(40, 60, 40), form(40, 60, 70)) << "one version or two";
  EXPECT_NE(form(40, 60, 40), form(40, 60, 30));
  EXPECT_NE(form(40, 60, 100), form(40, 60, 100, OpKind::elementwise));
}

}  // namespace
}  // namespace pooch::tracker
