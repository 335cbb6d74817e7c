// A loop of four layers: forward makes a map each, backward reads them in reverse and adds to a gradient, and
// a step updates the weight.
#include "tracker/segments.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/steps.h"

namespace pooch::tracker {
namespace {

using test::Steps;
constexpr int layers = 4;
constexpr std::uint64_t length = 2 * layers + 1;

class Segments : public testing::Test {
 protected:
  Segments() {
    for (int i = 0; i < 4; ++i) iterate();
  }
  void iterate() {
    std::vector<Address> maps;
    for (int i = 0; i < layers; ++i) {
      maps.push_back(steps.make());
      std::vector<Steps::Use> uses{{weight, Effect::read}, {maps.back(), Effect::overwrite}};
      if (i > 0) uses.push_back({maps[static_cast<std::size_t>(i) - 1], Effect::read});
      steps.run(OpKind::conv_forward, uses, static_cast<std::uint64_t>(i));
    }
    for (int i = layers; i-- > 0; maps.pop_back()) {
      steps.run(OpKind::conv_backward_filter, {{maps.back(), Effect::read}, {gradient, Effect::read_write}},
                static_cast<std::uint64_t>(i));
      steps.drop(maps.back());
    }
    steps.run(OpKind::blas, {{gradient, Effect::read}, {weight, Effect::read_write}});
  }
  const OpLog& log() const { return steps.tracker.log(); }
  StepIndex begin() const { return steps.tracker.log().end() - 4 * length; }

  Steps steps;
  const Address weight = steps.make(), gradient = steps.make();
};

TEST_F(Segments, BeginWhereNothingThatForwardMadeIsAlive) {
  for (StepIndex offset = 0; offset < length; ++offset) {
    const auto starts = starts_in_period(log(), begin() + offset, length);
    ASSERT_EQ(starts.size(), 1u);
    EXPECT_EQ((starts[0] - begin()) % length, 0u) << "whatever step the period is looked at from: " << offset;
  }
}

TEST_F(Segments, MayNotBeginWhileMuchIsAlive) {
  const StepIndex second = begin() + length;
  const auto may = [&](StepIndex step) {
    return may_begin_at(std::span<const StepIndex>(&step, 1), log(), begin(), length);
  };
  EXPECT_TRUE(may(second));
  for (StepIndex within = 1; within < layers + 1; ++within) EXPECT_FALSE(may(second + within)) << within;
}

TEST_F(Segments, OfAStretchBeginWithItIfItHasAForwardPass) {
  EXPECT_EQ(starts_in_stretch(log(), begin(), begin() + length), std::vector<StepIndex>{begin()});
  EXPECT_EQ(starts_in_stretch(log(), begin(), begin() + 2 * length),
            (std::vector<StepIndex>{begin(), begin() + length}));
  EXPECT_TRUE(starts_in_stretch(log(), begin() + layers, begin() + length).empty()) << "backward alone";
  EXPECT_TRUE(starts_in_stretch(log(), begin(), begin()).empty());
}

TEST(SegmentsOfALoop, ThatMakesNothingBeginWithItsFirstStep) {
  Steps steps;
  const Address weight = steps.make();
  for (int i = 0; i < 20; ++i)
    steps.run(OpKind::elementwise, {{weight, Effect::read_write}}, static_cast<std::uint64_t>(i % 5));
  EXPECT_EQ(starts_in_period(steps.tracker.log(), 3, 5), std::vector<StepIndex>{3});
}

}  // namespace
}  // namespace pooch::tracker
