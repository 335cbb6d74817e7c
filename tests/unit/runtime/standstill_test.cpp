#include "runtime/planning/standstill.h"

#include <gtest/gtest.h>

namespace pooch::runtime {
namespace {

class StandstillTest : public testing::Test {
 protected:
  // So many iterations begin; `each` says what has come since the one before. The line that was said.
  template <class Each>
  std::string iterate(std::uint64_t iterations, Each&& each) {
    std::string said;
    for (; iterations > 0; --iterations) {
      each(now);
      said += standstill.note(now);
    }
    return said;
  }
  Standstill standstill;
  PlanningNow now;
};

TEST_F(StandstillTest, NothingIsSaidWhilePlansAreFollowed) {
  EXPECT_EQ(iterate(100, [](PlanningNow& n) { n.planned += n.left++ % 4 == 0; }), "");
}

TEST_F(StandstillTest, PlansThatAreLeftEachTimeAreSaidOnce) {
  const auto leaves = [](PlanningNow& n) { ++n.left, n.left_at = 7; };
  EXPECT_EQ(iterate(Standstill::enough - 1, leaves), "");
  const std::string said = iterate(1, leaves);
  EXPECT_NE(said.find("20 iterations in a row followed no plan"), std::string::npos) << said;
  EXPECT_NE(said.find("at op 7 of the iteration"), std::string::npos) << said;
  EXPECT_EQ(iterate(100, leaves), "");
}

TEST_F(StandstillTest, IterationsThatAreAllNewAreSaid) {
  EXPECT_NE(iterate(20, [](PlanningNow& n) { ++n.phases; }).find("20 of them were unlike any before"),
            std::string::npos);
}

TEST_F(StandstillTest, APlannerThatTakesLongIsSaid) {
  EXPECT_NE(iterate(20, [](PlanningNow& n) { n.making = true; }).find("POOCH_WAIT_FOR_PLANS=1"),
            std::string::npos);
}

// Whoever found out that there is none has said so.
TEST_F(StandstillTest, WithoutAPlanToBeHadThereIsNothingToAdd) {
  EXPECT_EQ(iterate(100, [](PlanningNow&) {}), "");
}

}  // namespace
}  // namespace pooch::runtime
