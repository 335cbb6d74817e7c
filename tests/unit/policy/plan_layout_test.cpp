// A layout in a plan's file: every stay has all of its memory, which nobody else has at that time.
#include <gtest/gtest.h>

#include <string>

#include "core/pages.h"
#include "core/plan.h"

namespace pooch {
namespace {

// Two chunks take turns in frame 0; the first has frame 1 as well later on. The third crosses the border.
Plan example() {
  Plan plan;
  plan.phase = "9f31";
  plan.layout = PlanLayout{
      {"9f31", "a0"},
      {{page, {{0, 3}, {8, 9}}}, {page, {{4, 6}}}, {2 * page, {{0, 1, 0, 0, true}, {7, 9, 0, 0, true}}}},
      {{page, page, 2 * page}, {{{0}, {1}}, {{0}}, {{2}, {2}}}, 12.5, 1},
      4 * page};
  return plan;
}

std::string refusal(const Plan& plan) {
  const Result<Plan> read = plan_from_json(to_json(plan));
  return read ? "" : read.error().message;
}

TEST(PlanLayout, WrittenAndReadAgainIsTheSame) {
  const Result<Plan> read = plan_from_json(to_json(example()));
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(read->layout);
  EXPECT_EQ(read->layout->phases, example().layout->phases);
  EXPECT_EQ(read->layout->items, example().layout->items);
  EXPECT_EQ(read->layout->layout.frames, example().layout->layout.frames);
  EXPECT_EQ(read->layout->layout.frames_of, example().layout->layout.frames_of);
  EXPECT_EQ(read->layout->layout.wait_us, 12.5);
  EXPECT_EQ(read->layout->layout.moves, 1u);
  EXPECT_EQ(read->layout->at_once, 4 * page);
}

TEST(PlanLayout, AFrameHasOneTenantAtATime) {
  Plan plan = example();
  plan.layout->items[1].held[0].from = 3;
  EXPECT_EQ(refusal(plan), "plan: /layout/frames/0 is item 0's and item 1's at step 3: one tenant at a time");
}

TEST(PlanLayout, AStayHasAllOfItsMemory) {
  Plan plan = example();
  plan.layout->layout.frames_of[0][1] = {};
  EXPECT_EQ(refusal(plan), "plan: /layout/items/0/stays/1/frames has 0 bytes: the item's 2097152");
  plan.layout->layout.frames_of[0][1] = {1, 3};
  EXPECT_EQ(refusal(plan), "plan: /layout/items/0/stays/1/frames has 3: frames below 3");
}

TEST(PlanLayout, StaysFollowOneAnother) {
  Plan plan = example();
  plan.layout->items[0].held[1].from = 3;
  EXPECT_EQ(refusal(plan), "plan: /layout/items/0/stays/1/from is 3: a step from 4 on");
  plan.layout->items[0].held[1] = {8, 7};
  EXPECT_EQ(refusal(plan), "plan: /layout/items/0/stays/1/to is 7: a step from 8 on");
  plan.layout->items[0].held.clear();
  plan.layout->layout.frames_of[0].clear();
  EXPECT_EQ(refusal(plan), "plan: /layout/items/0/stays is empty: at least one stay");
}

TEST(PlanLayout, WhatCrossesTheBorderOfAnIterationStaysWhereItIs) {
  Plan plan = example();
  plan.layout->layout.frames.push_back(2 * page);
  plan.layout->layout.frames_of[2][1] = {3};
  EXPECT_EQ(refusal(plan),
            "plan: /layout/items/2/stays/1/frames has others than the stay before it that crosses: the same");
}

TEST(PlanLayout, NamesThePlansPhaseAndEachOnce) {
  Plan plan = example();
  plan.phase = "b1";
  EXPECT_EQ(refusal(plan), "plan: /layout/phases lacks the plan's phase: phases with that one among them");
  plan = example();
  plan.layout->phases = {"9f31", "9f31"};
  EXPECT_EQ(refusal(plan), "plan: /layout/phases/1 is not behind the one before it: ids in ascending order");
  plan.layout->phases = {};
  EXPECT_EQ(refusal(plan), "plan: /layout/phases is empty: at least one phase");
}

TEST(PlanLayout, FramesAreWholePages) {
  Plan plan = example();
  plan.layout->layout.frames[1] = 512;
  EXPECT_EQ(refusal(plan), "plan: /layout/frames/1 is 512: a multiple of 2097152");
}

TEST(PlanLayout, WhenTheNextInputArrivesIsAnExpectation) {
  const std::vector<LayoutItem> items = example().layout->items;
  std::vector<LayoutItem> others = items;
  others[2].held[1].from = 6;
  EXPECT_TRUE(same_stays(items, others));
  others[0].held[1].from = 7;
  EXPECT_FALSE(same_stays(items, others));
  others = items;
  others[1].held[0].to = 5;
  EXPECT_FALSE(same_stays(items, others));
}

}  // namespace
}  // namespace pooch
