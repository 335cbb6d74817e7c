#include "runtime/execution/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/chain.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 6;  // made by ops 0 to 5, read by ops 6 to 11 in reverse order
constexpr double op_us = 100;

std::int32_t reader(int map) {
  return test::reader_in_chain(maps, map);
}

PhaseProfile chain() {
  return test::chain_of(maps, op_us);
}

// Swaps the first `count` maps; each comes back at its reader.
Script at_need(const PhaseProfile& phase, int count) {
  auto script = Script::compile(test::swapping_in_chain(phase, count), phase, 0);
  EXPECT_TRUE(script) << script.error().message;
  return std::move(*script);
}

std::int32_t position_of(const Plan& plan, std::uint32_t map) {
  for (const auto& [position, actions] : plan.before)
    if (std::find(actions.begin(), actions.end(), PlanAction{PlanAction::Kind::prefetch, map}) !=
        actions.end())
      return position;
  return -1;
}

TEST(StartEarlier, MovesWhatWasWaitedForByAsMuchAsItWasWaitedFor) {
  const PhaseProfile phase = chain();
  const Script script = at_need(phase, 3);
  std::vector<double> waits(3, 0);
  waits[1] = 150;  // with the margin less than two ops
  const auto moved = start_earlier(script, waits);
  ASSERT_TRUE(moved);
  EXPECT_EQ(moved->moved, 1u);
  EXPECT_EQ(moved->longest_us, 150);
  EXPECT_EQ(position_of(moved->plan, 1), reader(2)) << "not before the prefetch ahead of it";
  EXPECT_EQ(position_of(moved->plan, 2), reader(2));
  EXPECT_EQ(position_of(moved->plan, 0), reader(0));
  waits = {0, 0, 150};
  EXPECT_EQ(position_of(start_earlier(script, waits)->plan, 2), reader(2) - 2);
}

TEST(StartEarlier, ExpectsTheCopyEarlierToo) {
  const PhaseProfile phase = chain();
  Plan plan = at_need(phase, 1).plan();
  plan.before.at(reader(0))[0].time = PlanTime{5000, 50};
  const Script script = *Script::compile(plan, phase, 0);
  const auto moved = start_earlier(script, std::vector<double>{150});
  ASSERT_TRUE(moved);
  const auto& actions = moved->plan.before.at(reader(0) - 2);
  ASSERT_EQ(actions.size(), 1u);
  const double earlier_us = script.start_us(reader(0)) - script.start_us(reader(0) - 2);
  EXPECT_GT(earlier_us, 150);
  EXPECT_EQ(actions[0].time, (PlanTime{5000 - earlier_us, 50}));
}

TEST(StartEarlier, NeverTakesMoreMemoryThanThePlanDoesAtItsPeak) {
  const PhaseProfile phase = chain();
  // At ops 5 and 6 four of six maps are there, at op 7 three, and so on.
  const Script script = at_need(phase, 2);
  const auto moved = start_earlier(script, std::vector<double>{1e6, 1e6});
  ASSERT_TRUE(moved);
  EXPECT_EQ(position_of(moved->plan, 1), 7);
  EXPECT_EQ(position_of(moved->plan, 0), 8) << "one map less is there then, but the other one has come";
  EXPECT_FALSE(start_earlier(*Script::compile(moved->plan, phase, 0), std::vector<double>{1e6, 1e6}));
}

TEST(StartEarlier, LeavesAloneWhatNobodyWaitedFor) {
  const PhaseProfile phase = chain();
  EXPECT_FALSE(start_earlier(at_need(phase, 3), std::vector<double>(3, 0)));
  EXPECT_FALSE(start_earlier(at_need(phase, 3), std::vector<double>(3, 5)));
}

TEST(Feedback, TakesBackWhatMadeIterationsLonger) {
  const PhaseProfile phase = chain();
  const Script script = at_need(phase, 2);
  Feedback feedback;
  EXPECT_FALSE(feedback.note({150, 150}));
  EXPECT_FALSE(feedback.note({150, 150}));
  ASSERT_TRUE(feedback.note({0, 9000})) << "an outlier counts for nothing";
  const auto first = feedback.next(script, 1.0);
  ASSERT_TRUE(first);
  EXPECT_GT(first->moved, 0u);
  const Script later = *Script::compile(first->plan, phase, 0);
  for (std::size_t i = 0; i < Feedback::iterations; ++i) feedback.note({150, 150});
  const auto second = feedback.next(later, 1.1);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->moved, 0u);
  EXPECT_EQ(second->plan.before, script.plan().before);
  EXPECT_TRUE(feedback.ended());
}

TEST(Feedback, EndsWhenNobodyWaits) {
  const PhaseProfile phase = chain();
  Feedback feedback;
  for (std::size_t i = 0; i < Feedback::iterations; ++i) feedback.note({0, 0});
  EXPECT_FALSE(feedback.next(at_need(phase, 2), 1.0));
  EXPECT_TRUE(feedback.ended());
}

}  // namespace
}  // namespace pooch::runtime
