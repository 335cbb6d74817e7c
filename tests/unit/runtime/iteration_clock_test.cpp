#include "runtime/observe/iteration_clock.h"

#include <gtest/gtest.h>

#include "core/bytes.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

constexpr tracker::PhaseIndex train{0}, validate{1};

class IterationClockTest : public testing::Test {
 protected:
  void iteration(tracker::PhaseIndex phase, double ms, bool followed = true) {
    clock_.begin(phase, stream_);
    device_.launch(
        stream_, [] {}, ms * 1000);
    if (followed) clock_.complete();
  }

  test::LazyDevice device_{64 * MiB};
  StreamHandle stream_ = *device_.create_stream();
  IterationClock clock_{device_};
};

TEST_F(IterationClockTest, GivesTheMedianOfEachPhase) {
  for (const double ms : {10, 11, 50, 12, 13}) iteration(train, ms);
  iteration(validate, 3);
  iteration(train, 1);
  device_.drain();
  EXPECT_NEAR(clock_.median_ms(train).value_or(0), 12, 0.001) << "the last one has no successor";
  EXPECT_NEAR(clock_.median_ms(validate).value_or(0), 3, 0.001);
}

TEST_F(IterationClockTest, NothingCountsThatWasNotFollowedToItsEndAndByAnother) {
  iteration(train, 10, /*followed=*/false);
  iteration(train, 20);
  clock_.interrupt();
  device_.launch(
      stream_, [] {}, 5000);
  iteration(train, 30);
  device_.drain();
  EXPECT_FALSE(clock_.median_ms(train));
}

TEST_F(IterationClockTest, AnIterationWhoseBeginWasNotRecordedCountsForNone) {
  device_.block(stream_);
  for (int i = 0; i < 20; ++i) iteration(train, 10);  // more than are held
  device_.unblock(stream_);
  device_.drain();
  iteration(train, 10);
  iteration(train, 10);
  device_.drain();
  EXPECT_NEAR(clock_.median_ms(train).value_or(0), 10, 0.001);
  clock_.interrupt();
  clock_.complete();  // of nothing
  iteration(validate, 3);
  device_.drain();
  EXPECT_FALSE(clock_.median_ms(validate));
}

TEST_F(IterationClockTest, NeverWaitsAndHoldsFewEvents) {
  device_.block(stream_);
  for (int i = 0; i < 100; ++i) iteration(train, 10);
  EXPECT_FALSE(clock_.median_ms(train));
  EXPECT_LE(device_.events(), 16u);
  device_.unblock(stream_);
  device_.drain();
  EXPECT_TRUE(clock_.median_ms(train));
}

}  // namespace
}  // namespace pooch::runtime
