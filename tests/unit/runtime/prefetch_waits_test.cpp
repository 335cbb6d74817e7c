#include "runtime/execution/prefetch_waits.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

class PrefetchWaitsTest : public testing::Test {
 protected:
  test::LazyDevice device_{64 * MiB};
  StreamHandle compute_ = *device_.create_stream(), link_ = *device_.create_stream();
  PrefetchWaits waits_{device_};

  void work(StreamHandle stream, double us) {
    device_.launch(
        stream, [] {}, us);
  }
};

TEST_F(PrefetchWaitsTest, AreWhatTheCopyEndsLaterThanItIsNeeded) {
  waits_.watch(2, compute_);
  device_.drain();
  work(compute_, 30);
  device_.drain();
  waits_.needed(0, compute_);  // was not fetched
  waits_.fetched(1, link_);
  device_.drain();
  waits_.needed(1, compute_);
  EXPECT_FALSE(waits_.collect()) << "it is not over";
  waits_.end();
  device_.drain();
  EXPECT_EQ(waits_.collect(), (std::vector<double>{0, 0}));
  EXPECT_FALSE(waits_.collect());

  waits_.watch(1, compute_);
  device_.drain();
  work(link_, 40);
  waits_.fetched(0, link_);
  EXPECT_TRUE(waits_.awaited(0));
  waits_.needed(0, compute_);
  EXPECT_FALSE(waits_.awaited(0));
  waits_.fetched(0, link_);  // a piece that nobody has to wait for any more
  waits_.end();
  EXPECT_FALSE(waits_.collect()) << "the device is not through with it";
  device_.drain();
  const auto measured = waits_.collect();
  ASSERT_TRUE(measured);
  EXPECT_LE((*measured)[0], 40);
}

TEST_F(PrefetchWaitsTest, AreTheWholeCopyWhereComputeIsThereFirst) {
  // The device runs what it may in any order: some time compute comes first.
  double longest = 0;
  for (int i = 0; i < 40; ++i) {
    waits_.watch(1, compute_);
    device_.drain();
    work(link_, 40);
    waits_.fetched(0, link_);
    waits_.needed(0, compute_);
    waits_.end();
    device_.drain();
    longest = std::max(longest, waits_.collect().value_or(std::vector<double>{0})[0]);
  }
  EXPECT_NEAR(longest, 40, 0.001);
}

TEST_F(PrefetchWaitsTest, KeepNoEvents) {
  {
    PrefetchWaits waits(device_);
    for (int i = 0; i < 20; ++i) {
      waits.watch(3, compute_);
      waits.fetched(1, link_);
      waits.needed(1, compute_);
      if (i % 2 == 0) waits.give_up();
      waits.end();
      device_.drain();
      waits.collect();
    }
    EXPECT_LE(device_.events(), 3u);
  }
  EXPECT_EQ(device_.events(), 0u);
}

}  // namespace
}  // namespace pooch::runtime
