// Times of ops by events, and the link probe, over the lazy device.
#include <gtest/gtest.h>

#include <map>

#include "cupti/event_timer.h"
#include "cupti/link_probe.h"
#include "cupti/mapping_probe.h"
#include "tests/support/lazy_device.h"
#include "tests/support/refusing_device.h"

namespace pooch::cupti {
namespace {

class EventTimerTest : public testing::Test {
 protected:
  // An op of one piece of work.
  void run(std::uint64_t op, StreamHandle stream, double microseconds) {
    ASSERT_TRUE(timer_.begin(op, stream));
    device_.launch(
        stream, [] {}, microseconds);
    ASSERT_TRUE(timer_.end(op, stream));
  }
  std::map<std::uint64_t, OpTime> by_op() const {
    std::map<std::uint64_t, OpTime> all;
    for (const OpTime& time : times_) all.emplace(time.op, time);
    return all;
  }

  test::LazyDevice device_{64 * MiB};
  EventTimer timer_{device_};
  StreamHandle stream_ = *device_.create_stream(), other_ = *device_.create_stream();
  std::vector<OpTime> times_;
};

TEST_F(EventTimerTest, MeasuresWhatLiesBetweenBeginAndEnd) {
  device_.launch(
      stream_, [] {}, 1000);  // before: not the op's
  run(1, stream_, 50);
  device_.launch(
      stream_, [] {}, 500);  // between: nobody's
  run(2, stream_, 70);
  device_.drain();
  ASSERT_TRUE(timer_.collect(times_));
  ASSERT_EQ(times_.size(), 2u);
  EXPECT_EQ(times_[0].op, 1u);
  EXPECT_NEAR(times_[0].end_us - times_[0].start_us, 50, 0.01);
  EXPECT_NEAR(times_[1].end_us - times_[1].start_us, 70, 0.01);
  EXPECT_NEAR(times_[1].start_us - times_[0].end_us, 500, 0.01);
}

TEST_F(EventTimerTest, CollectNeverWaitsAndGivesEachOpOnce) {
  device_.block(stream_);
  run(1, stream_, 50);
  run(2, other_, 60);
  device_.drain();
  ASSERT_TRUE(timer_.collect(times_));
  ASSERT_EQ(times_.size(), 1u);
  EXPECT_EQ(times_[0].op, 2u);
  device_.unblock(stream_);
  device_.drain();
  ASSERT_TRUE(timer_.collect(times_));
  ASSERT_TRUE(timer_.collect(times_));
  ASSERT_EQ(times_.size(), 2u);
  EXPECT_EQ(times_[1].op, 1u);
  EXPECT_GE(times_[1].start_us, times_[0].end_us - 0.01);
}

TEST_F(EventTimerTest, OpsOfTwoThreadsMayBeOpenAtOnce) {
  ASSERT_TRUE(timer_.begin(1, stream_));
  ASSERT_TRUE(timer_.begin(2, other_));
  device_.launch(
      other_, [] {}, 5);
  ASSERT_TRUE(timer_.end(2, other_));
  ASSERT_TRUE(timer_.end(1, stream_));
  device_.drain();
  ASSERT_TRUE(timer_.collect(times_));
  EXPECT_EQ(by_op().size(), 2u);
  EXPECT_GE(by_op().at(2).end_us - by_op().at(2).start_us, 4.99);
}

TEST_F(EventTimerTest, EventsAreUsedAgain) {
  for (std::uint64_t op = 0; op < 1000; ++op) {
    run(op, stream_, 1);
    device_.drain();
    ASSERT_TRUE(timer_.collect(times_));
  }
  EXPECT_EQ(times_.size(), 1000u);
  EXPECT_LE(device_.events(), 4u);
}

// The driver's answers are floats: over minutes they lose microseconds.
TEST_F(EventTimerTest, NeighboursKeepTheirDistanceOverMinutes) {
  for (std::uint64_t op = 0; op < 1000; ++op) {
    run(op, stream_, 10);
    device_.launch(
        stream_, [] {}, 400'123);
    device_.drain();
    ASSERT_TRUE(timer_.collect(times_));
  }
  ASSERT_EQ(times_.size(), 1000u);
  for (std::size_t i = 1; i < times_.size(); ++i) {
    ASSERT_NEAR(times_[i].start_us - times_[i - 1].end_us, 400'123, 0.5) << i;
    ASSERT_NEAR(times_[i].end_us - times_[i].start_us, 10, 0.01) << i;
  }
  EXPECT_LE(device_.events(), 4u);
}

TEST_F(EventTimerTest, StopLeavesNoEventWhateverIsStillRunning) {
  run(1, stream_, 10);
  device_.drain();
  device_.block(stream_);
  run(2, stream_, 10);
  ASSERT_TRUE(timer_.begin(3, other_));
  ASSERT_TRUE(timer_.stop(times_));
  ASSERT_EQ(times_.size(), 1u);
  EXPECT_EQ(times_[0].op, 1u);
  EXPECT_EQ(device_.events(), 0u);
  EXPECT_FALSE(timer_.begin(4, stream_));
  ASSERT_TRUE(timer_.stop(times_));
  EXPECT_EQ(times_.size(), 1u);
  EXPECT_TRUE(device_.complaints().empty());
}

TEST_F(EventTimerTest, AnEndWithoutABeginIsAnError) {
  EXPECT_FALSE(timer_.end(1, stream_));
  EXPECT_EQ(device_.events(), 0u);
}

TEST(EventTimer, DestructionStops) {
  test::LazyDevice device{64 * MiB};
  const StreamHandle stream = *device.create_stream();
  {
    EventTimer timer(device);
    ASSERT_TRUE(timer.begin(1, stream));
    ASSERT_TRUE(timer.end(1, stream));
    EXPECT_EQ(device.events(), 2u);
  }
  EXPECT_EQ(device.events(), 0u);
}

class LinkProbeTest : public testing::Test {
 protected:
  static constexpr std::uint64_t bytes = 4 * MiB;
  void SetUp() override {
    ASSERT_TRUE(device_.map(base_, bytes, *device_.create(bytes)));
    ASSERT_TRUE(device_.set_access(base_, bytes));
  }

  test::LazyDevice device_{64 * MiB};
  Address base_ = *device_.reserve(bytes);
  std::byte* host_ = *device_.host_allocate(bytes);
  StreamHandle out_ = *device_.create_stream(), in_ = *device_.create_stream();
};

TEST_F(LinkProbeTest, CopiesOfEverySizeThatFitsEachWayAloneAndTogether) {
  const auto samples = probe_link(device_, out_, in_, {base_, host_, bytes});
  ASSERT_TRUE(samples) << samples.error().message;
  std::map<std::uint64_t, int> alone, both;
  for (const LinkSample& sample : *samples) {
    EXPECT_GT(sample.microseconds, 0);
    ++(sample.both ? both : alone)[sample.bytes];
  }
  EXPECT_EQ(alone, (std::map<std::uint64_t, int>{{64 * KiB, 2}, {1 * MiB, 2}}));
  EXPECT_EQ(both, alone);
  EXPECT_EQ(device_.events(), 0u);
  EXPECT_TRUE(device_.unmap(base_, bytes)) << "nothing is under way any more";
  device_.drain();
  EXPECT_TRUE(device_.complaints().empty());
}

TEST_F(LinkProbeTest, StaysWithinTheMemoryThatItWasGiven) {
  const auto samples = probe_link(device_, out_, in_, {base_ + (bytes - 64 * KiB), host_, 64 * KiB});
  ASSERT_TRUE(samples) << samples.error().message;
  EXPECT_EQ(samples->size(), 2u);
  EXPECT_TRUE(device_.complaints().empty());
}

TEST_F(LinkProbeTest, RefusesWhatItCannotMeasure) {
  EXPECT_FALSE(probe_link(device_, out_, out_, {base_, host_, bytes}));
  EXPECT_FALSE(probe_link(device_, out_, in_, {base_, host_, 4 * KiB}));
  EXPECT_EQ(device_.events(), 0u);
}

class MappingProbeTest : public testing::Test {
 protected:
  static constexpr std::size_t count = 8;
  std::vector<PhysicalHandle> make_handles() {
    std::vector<PhysicalHandle> handles;
    for (std::size_t i = 0; i < count; ++i) handles.push_back(*device_.create(2 * MiB));
    return handles;
  }

  test::LazyDevice device_{64 * MiB};
  StreamHandle stream_ = *device_.create_stream();
  std::vector<PhysicalHandle> handles_ = make_handles();
  bool still_mapped_ = false;
};

TEST_F(MappingProbeTest, MovesOneHandleTwoFourAndEightAtOnce) {
  const auto prices = probe_mapping(device_, stream_, handles_, 2 * MiB, still_mapped_);
  ASSERT_TRUE(prices) << prices.error().message;
  std::vector<std::uint32_t> counts;
  for (const MoveSample& move : prices->moves) counts.push_back(move.handles);
  EXPECT_EQ(counts, (std::vector<std::uint32_t>{1, 2, 4, 8}));
  EXPECT_FALSE(still_mapped_);
  EXPECT_EQ(device_.events(), 0u);
  for (const PhysicalHandle handle : handles_) EXPECT_TRUE(device_.destroy(handle));
  EXPECT_EQ(device_.created_bytes(), 0u);
  EXPECT_TRUE(device_.complaints().empty());
}

TEST_F(MappingProbeTest, WhateverCallFailsSaysWhetherHandlesAreStillMapped) {
  test::RefusingDevice counted(device_, {});
  ASSERT_TRUE(probe_mapping(counted, stream_, handles_, 2 * MiB, still_mapped_));
  for (std::uint64_t number = 1; number <= counted.calls(); ++number) {
    test::LazyDevice device(64 * MiB);
    const StreamHandle stream = *device.create_stream();
    std::vector<PhysicalHandle> handles;
    for (std::size_t i = 0; i < count; ++i) handles.push_back(*device.create(2 * MiB));
    test::RefusingDevice refusing(device, {.number = number});
    bool still_mapped = false;
    EXPECT_FALSE(probe_mapping(refusing, stream, handles, 2 * MiB, still_mapped)) << refusing.struck();
    EXPECT_EQ(still_mapped, refusing.struck() == std::string_view("unmap"));
    EXPECT_EQ(device.events(), 0u);
  }
}

}  // namespace
}  // namespace pooch::cupti
