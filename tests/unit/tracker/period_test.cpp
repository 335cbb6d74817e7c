#include "tracker/period.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/steps.h"

namespace pooch::tracker {
namespace {

using test::Steps;

// Runs steps and shows each to the finder.
class Periods : public testing::Test {
 protected:
  // Ops of different kinds that all work on the weight.
  std::optional<Period> iterate(Address weight, int ops, std::uint64_t longer_than = 0) {
    std::optional<Period> found;
    for (int i = 0; i < ops; ++i) {
      steps.run(OpKind::elementwise, {{weight, Effect::read_write}}, static_cast<std::uint64_t>(i));
      found = finder.push(longer_than);
    }
    return found;
  }
  void begin() {  // what is used later has been there for a while
    for (int i = 0; i < 20; ++i) {
      steps.run(OpKind::set, {{steps.make(), Effect::overwrite}}, 100 + static_cast<std::uint64_t>(i));
      (void)finder.push();
    }
  }

  Steps steps;
  PeriodFinder finder{steps.tracker.log(), Likeness::exact};
};

TEST_F(Periods, AreFoundAtTheEndOfTheSecondRepetition) {
  const Address weight = steps.make();
  begin();
  EXPECT_FALSE(iterate(weight, 20));
  EXPECT_FALSE(iterate(weight, 19)) << "one op is missing";
  steps.run(OpKind::elementwise, {{weight, Effect::read_write}}, 19);
  const auto found = finder.push();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->length, 20u);
  EXPECT_EQ(found->from, 20u) << "behind what came before the loop";
}

TEST_F(Periods, OfShortLoopsTakeMoreThanTwoRepetitions) {
  const Address weight = steps.make();
  begin();
  EXPECT_FALSE(iterate(weight, 5));
  EXPECT_FALSE(iterate(weight, 5)) << "five equal steps may be an accident";
  EXPECT_FALSE(iterate(weight, 5));
  EXPECT_FALSE(iterate(weight, 5));
  EXPECT_TRUE(iterate(weight, 5));
}

TEST_F(Periods, AreNoneOfEqualLayersWithWeightsOfTheirOwn) {
  std::vector<Address> weights;
  for (int i = 0; i < 6; ++i) weights.push_back(steps.make());
  begin();
  for (const Address weight : weights) EXPECT_FALSE(iterate(weight, 20));
  for (std::size_t i = 0; i + 1 < weights.size(); ++i) EXPECT_FALSE(iterate(weights[i], 20));
  const auto found = iterate(weights.back(), 20);
  ASSERT_TRUE(found) << "all six layers are one";
  EXPECT_EQ(found->length, 120u);
}

TEST_F(Periods, ThatAreTooShortAreLeftOut) {
  const Address weight = steps.make();
  begin();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(iterate(weight, 20, /*longer_than=*/20));
  const auto found = iterate(weight, 20, /*longer_than=*/20);
  EXPECT_FALSE(found) << "twice the length is no other period of what is met again after one";
}

TEST_F(Periods, BeginAnewWhereTheFinderIsRestarted) {
  const Address weight = steps.make();
  begin();
  (void)iterate(weight, 20);
  finder.restart(steps.tracker.log().end());
  EXPECT_FALSE(iterate(weight, 20)) << "what came before counts no more";
  const auto found = iterate(weight, 20);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->from, 40u);
}

}  // namespace
}  // namespace pooch::tracker
