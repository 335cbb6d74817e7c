// Plans that say where everything lies: made where the profile knows the places of its buffers.
#include "placed_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "core/pages.h"
#include "tests/support/network_profile.h"
#include "tests/support/random_profile.h"

namespace pooch::tools {
namespace {

Profile resnet() {
  Profile profile = test::resnet50_profile(test::v100_pcie3(), 64);
  profile.cap_bytes = 3 * GiB;
  test::add_places(profile);
  return profile;
}

PlacedRequest asked(const Profile& profile, std::uint64_t memory, std::uint64_t room = 0) {
  PlacedRequest request;
  request.phase = profile.phases[0].id;
  request.policy = "hybrid";
  request.plan.memory = memory;
  request.plan.bound = false;
  request.room = room;
  return request;
}

TEST(PlacedPlan, SaysWhereEverythingLies) {
  const Profile profile = resnet();
  const auto plan = make_placed_plan(profile, asked(profile, 2 * GiB, 2 * GiB + 64 * MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(plan->layout);
  EXPECT_EQ(plan->layout->phases, std::vector<std::string>{profile.phases[0].id});
  EXPECT_GE(plan->layout->layout.bytes(), plan->layout->at_once);
  EXPECT_LE(plan->layout->layout.bytes(), 2 * GiB + 64 * MiB);
  const auto read = plan_from_json(to_json(*plan));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(to_json(*read), to_json(*plan));
}

TEST(PlacedPlan, IsTheSameEachTime) {
  const Profile profile = resnet();
  const auto once = make_placed_plan(profile, asked(profile, 2 * GiB)),
             again = make_placed_plan(profile, asked(profile, 2 * GiB));
  ASSERT_TRUE(once && again);
  EXPECT_EQ(to_json(*once), to_json(*again));
}

// The layout's memory is less than the plan's: the next plans are for less.
TEST(PlacedPlan, IsForLessMemoryWhereItsLayoutHasLess) {
  const Profile profile = resnet();
  const auto plan = make_placed_plan(profile, asked(profile, 2 * GiB, 2 * GiB - 128 * MiB));
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(plan->layout);
  EXPECT_LE(plan->layout->layout.bytes(), 2 * GiB - 128 * MiB);
  EXPECT_EQ(plan->cap, 2 * GiB) << "what it was asked for";
}

// Moves are then priced with what mapping costs.
TEST(PlacedPlan, IsAnUnplacedPlanWhereNoLayoutHasRoom) {
  const Profile profile = resnet();
  PlacedRequest request = asked(profile, 2 * GiB, 64 * MiB);
  const auto plan = make_placed_plan(profile, request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->layout);
  request.plan.placed = false;
  const auto unplaced = policy::make_plan(profile, request.phase, request.policy, request.plan);
  ASSERT_TRUE(unplaced) << unplaced.error().message;
  EXPECT_EQ(to_json(*plan), to_json(*unplaced));
}

TEST(PlacedPlan, HasNoLayoutWhereNoneIsAskedFor) {
  const Profile profile = resnet();
  PlacedRequest request = asked(profile, 2 * GiB);
  request.plan.placed = false;
  const auto plan = make_placed_plan(profile, request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->layout);
}

TEST(PlacedPlan, HasNoLayoutWhereNobodyKnowsWhereBuffersLie) {
  Profile profile = resnet();
  for (ProfileBuffer& buffer : profile.phases[0].buffers) buffer.ranges.clear();
  const PlacedRequest request = asked(profile, 2 * GiB);
  const auto plan = make_placed_plan(profile, request);
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_FALSE(plan->layout);
  const auto bare = policy::make_plan(profile, request.phase, request.policy, request.plan);
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_EQ(to_json(*plan), to_json(*bare)) << "priced for the layout to come";
}

TEST(PlacedPlan, LaysOutAPlanAsItIs) {
  const Profile profile = resnet();
  PlacedRequest request = asked(profile, 2 * GiB, 3 * GiB);
  auto plan = policy::make_plan(profile, request.phase, request.policy, request.plan);
  ASSERT_TRUE(plan);
  request.follow = *plan;
  auto laid_out = make_placed_plan(profile, request);
  ASSERT_TRUE(laid_out) << laid_out.error().message;
  ASSERT_TRUE(laid_out->layout);
  laid_out->layout.reset();
  EXPECT_EQ(to_json(*laid_out), to_json(*plan));
}

TEST(PlacedPlan, SharesItsLayoutWithThePlansOfOtherPhases) {
  Profile profile = resnet();
  PhaseProfile other = profile.phases[0];
  other.id = "0" + other.id;
  profile.phases.push_back(other);
  PlacedRequest request = asked(profile, 2 * GiB, 3 * GiB);
  request.phase = other.id;
  request.beside = {*policy::make_plan(profile, profile.phases[0].id, "hybrid", request.plan)};
  const auto plan = make_placed_plan(profile, request);
  ASSERT_TRUE(plan) << plan.error().message;
  ASSERT_TRUE(plan->layout);
  EXPECT_EQ(plan->layout->phases, (std::vector<std::string>{other.id, profile.phases[0].id}));
  const auto alone = make_placed_plan(profile, asked(profile, 2 * GiB, 3 * GiB));
  ASSERT_TRUE(alone && alone->layout);
  const auto stays = [](const PlanLayout& layout) {
    std::size_t all = 0;
    for (const LayoutItem& item : layout.items) all += item.held.size();
    return all;
  };
  EXPECT_GT(stays(*plan->layout), stays(*alone->layout));
}

TEST(PlacedPlan, OfAnotherProfileIsRefused) {
  const Profile profile = resnet();
  PlacedRequest request = asked(profile, 2 * GiB);
  Plan stranger;
  stranger.phase = "nobody";
  request.beside = {stranger};
  const auto plan = make_placed_plan(profile, request);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().message, "the profile has no phase nobody");
}

// Random networks: a layout has no fault that a reader would find, and needs no more than it may. hybrid's
// search takes seconds for each plan, so most plans come from others.
TEST(PlacedPlan, OfRandomNetworksIsSound) {
  constexpr std::array others{"superneurons", "swap-opt", "vdnn-dyn", "swap-all", "vdnn-all", "pooch"};
  constexpr std::uint64_t searched = 8;
  int laid_out = 0;
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const Profile profile = test::random_profile(200, seed);
    for (const std::uint64_t share : {60, 80, 100}) {
      const std::uint64_t memory = profile.need_bytes / 100 * share / page * page;
      PlacedRequest request = asked(profile, memory);
      request.policy = seed == searched ? "hybrid" : others[seed % others.size()];
      const auto plan = make_placed_plan(profile, request);
      if (!plan || !plan->layout) continue;
      ++laid_out;
      EXPECT_EQ(what_is_wrong(*plan->layout), "") << request.policy << " " << seed << " " << share;
      EXPECT_LE(plan->layout->layout.bytes(), memory);
    }
  }
  EXPECT_GT(laid_out, 20);
}

}  // namespace
}  // namespace pooch::tools
