// Plans for the rig's chain: some maps are swapped, some dropped and made again, each back ahead of its
// reader.
#include "runtime/execution/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/execution/known_places.h"
#include "runtime/script/layout.h"
#include "tests/support/program.h"
#include "tests/support/rig.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 6;
constexpr std::uint64_t map_bytes = 2 * MiB;
constexpr double move_us = 100;

using Maps = std::vector<std::uint32_t>;

// By maps, which op i makes.
Plan plan_of(const PhaseProfile& phase, const Maps& swapped, const Maps& dropped) {
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  plan.device = "lazy";
  plan.policy = "test";
  plan.predicted_ms = 1.5;
  plan.peak = 10 * MiB;
  for (const ProfileVersion& version : phase.versions) {
    const auto number = static_cast<std::uint32_t>(version.producer);
    const bool swaps = std::find(swapped.begin(), swapped.end(), number) != swapped.end(),
               drops = std::find(dropped.begin(), dropped.end(), number) != dropped.end();
    if (!swaps && !drops) continue;
    PlanMap map;
    map.map = number;
    map.name = "map " + std::to_string(number);
    map.buffer = version.buffer;
    map.bytes = map_bytes;
    map.of = swaps ? MapClass::swap : MapClass::recompute;
    if (swaps) map.moved = map_bytes;
    if (drops) map.by = {version.producer};
    plan.maps.push_back(map);
    plan.after[version.producer] = {{swaps ? PlanAction::Kind::evict : PlanAction::Kind::drop, number}};
    plan.before[version.readers.at(0)] = {
        {swaps ? PlanAction::Kind::prefetch : PlanAction::Kind::replay, number}};
  }
  return plan;
}

class Following : public testing::Test {
 protected:
  // A program of which all is known, under a cap.
  void learn(const char* cap) {
    rig.emplace(test::session_config(cap, "64MiB"));
    program.emplace(*rig, maps);
    iterate(5);
    const auto where = rig->tracker.iterations().where();
    ASSERT_TRUE(where);
    phase = where->phase;
    ASSERT_NE(rig->profiler.plannable(phase), nullptr);
    known = *rig->profiler.plannable(phase);
    ASSERT_TRUE(known.settled);
  }
  ~Following() override { EXPECT_TRUE(!program || program->wrong() == 0) << program->wrong(); }

  void iterate(int times) {
    for (int i = 0; i < times; ++i) {
      const Status done = program->iterate();
      ASSERT_TRUE(done) << done.error().message;
    }
  }
  // Until the program is known again, say.
  template <class Reached>
  void until(Reached&& reached) {
    for (int i = 0; i < 12 && !reached(); ++i) iterate(1);
    EXPECT_TRUE(reached());
  }
  // The first few maps alone, which the plan does not expect.
  void iterate_short() {
    const Status done = program->iterate(maps - 2);
    ASSERT_TRUE(done) << done.error().message;
  }
  Status adopt(const Plan& plan, bool placed = true) {
    Held held(rig->mutex);
    return executor().adopt(phase, {plan, known, 0, placed}, held);
  }
  Plan plan(const Maps& swapped, const Maps& dropped) const {
    return plan_of(known.profile, swapped, dropped);
  }
  PlanLayout layout_for(const Plan& plan) {
    OwnPlaces own(rig->memory.space, *rig->memory.residency);
    KnownPlaces places(*rig->memory.residency, rig->memory.temporaries, own);
    const auto script = Script::compile(plan, known.profile, 0);
    EXPECT_TRUE(script) << script.error().message;
    const std::vector<PlacedPhase> phases{{&*script, &known.profile, places.of(known)}};
    auto ranges = places.described();
    add_slots(phases, ranges);
    const auto items = items_of(places_of(phases, ranges, rig->limits.cap), phases);
    return {{plan.phase}, items, lay_out(items, 0, move_us), most_at_once(items)};
  }
  Plan laid_out(const Maps& swapped, const Maps& dropped) {
    Plan made = plan(swapped, dropped);
    made.layout = layout_for(made);
    return made;
  }
  Executor& executor() { return *rig->executor; }
  ExecutorCounts counts() { return executor().counts(); }

  std::optional<test::Rig> rig;
  std::optional<test::ChainProgram> program;
  tracker::PhaseIndex phase{};
  KnownPhase known;
};

TEST_F(Following, SwappedMapsLeaveAndAreBackWithoutDemand) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({0, 1, 2}, {})));
  const std::uint64_t before = rig->memory.residency->evictions();
  iterate(4);
  EXPECT_EQ(counts().planned_iterations, 4u);
  EXPECT_EQ(counts().unplanned, 0u);
  EXPECT_EQ(counts().left, 0u);
  EXPECT_GT(rig->memory.residency->evictions(), before);
}

TEST_F(Following, DroppedMapsAreMadeAgainByTheirCalls) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({}, {0, 1, 2})));
  iterate(4);
  EXPECT_EQ(counts().planned_iterations, 4u);
  EXPECT_EQ(counts().replays, 12u);
  EXPECT_EQ(counts().unplanned, 0u);
}

TEST_F(Following, APlanOfAnotherPhaseOrStructureIsRefusedAndTheEarlierOneGoesOn) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({0}, {})));
  Plan other = plan({1}, {});
  other.phase = "b1";
  EXPECT_EQ(adopt(other).error().code, ErrorCode::invalid_argument);
  other = plan({1}, {});
  other.structure = "b1";
  EXPECT_EQ(adopt(other).error().code, ErrorCode::invalid_argument);
  iterate(2);
  EXPECT_EQ(counts().planned_iterations, 2u);
}

TEST_F(Following, APlanThatReplacesAnotherIsFollowedFromTheNextIterationOn) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({}, {0, 1})));
  iterate(2);
  EXPECT_EQ(counts().replays, 4u);
  ASSERT_TRUE(adopt(plan({}, {1})));
  iterate(2);
  EXPECT_EQ(counts().replays, 6u);
  EXPECT_EQ(counts().planned_iterations, 4u);
  EXPECT_EQ(counts().left, 0u);
}

TEST_F(Following, APlanIsLeftAtAnOpThatItDoesNotExpectOnceWhatWasDroppedIsMadeAgain) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({2}, {0, 1})));
  iterate(1);
  EXPECT_EQ(counts().replays, 2u);
  iterate_short();
  EXPECT_EQ(counts().left, 1u);
  EXPECT_EQ(counts().replays, 4u);
  EXPECT_EQ(counts().planned_iterations, 1u);
  until([this] { return counts().planned_iterations > 1; });
}

TEST_F(Following, APaceIsOfThePlanThatIsFollowed) {
  learn("12MiB");
  EXPECT_FALSE(executor().pace());
  ASSERT_TRUE(adopt(plan({0, 1, 2}, {})));
  iterate(6);
  const auto pace = executor().pace();
  ASSERT_TRUE(pace);
  EXPECT_EQ(pace->predicted_ms, 1.5);
  EXPECT_EQ(pace->predicted_peak, 10 * MiB);
  ASSERT_TRUE(pace->actual_ms);
  EXPECT_NEAR(*pace->actual_ms, (2 * maps + 1) * program->op_us / 1e3, 0.1);
  EXPECT_GE(pace->peak, 4 * map_bytes);
  EXPECT_LE(pace->peak, rig->limits.cap);
}

TEST_F(Following, AShortageIsToldOnceThreeIterationsInARowAskedDemand) {
  learn("8MiB");
  ASSERT_TRUE(adopt(plan({0}, {})));
  iterate(2);
  EXPECT_FALSE(executor().take_shortage(phase));
  iterate(3);
  const auto shortage = executor().take_shortage(phase);
  ASSERT_TRUE(shortage);
  EXPECT_GT(*shortage, 0);
  EXPECT_GT(counts().unplanned, 0u);
  iterate(3);
  EXPECT_FALSE(executor().take_shortage(phase)) << "once per plan";
}

// --- layouts

TEST_F(Following, APlanWithALayoutIsFollowedInItsFrames) {
  learn("12MiB");
  const Plan made = laid_out({0, 1}, {2});
  ASSERT_TRUE(adopt(made));
  EXPECT_FALSE(executor().aliased());
  iterate(4);
  EXPECT_TRUE(executor().aliased());
  EXPECT_EQ(counts().aliased, 1u);
  EXPECT_EQ(counts().aliased_iterations, 4u);
  EXPECT_EQ(counts().replays, 4u);
  EXPECT_EQ(counts().unplanned, 0u);
  const std::uint64_t created = rig->device.created_bytes();
  iterate(3);
  EXPECT_EQ(rig->device.created_bytes(), created);
}

// An event between two kernels costs the device as much as a short kernel.
TEST_F(Following, InALayoutEventsAreRecordedOnlyWhereACopyHasToFollow) {
  learn("12MiB");
  ASSERT_TRUE(adopt(laid_out({0}, {2})));
  iterate(3);
  ASSERT_TRUE(executor().aliased());
  const std::uint64_t before = rig->device.records();
  iterate(1);
  // The copies out and in, what each of them follows, and the iteration's length.
  EXPECT_LE(rig->device.records() - before, 6u);
  EXPECT_LT(6u, 2u * maps + 1) << "ops";
}

TEST_F(Following, ALayoutEndsWithItsPlanAndIsTakenAgain) {
  learn("12MiB");
  ASSERT_TRUE(adopt(laid_out({0, 1}, {2})));
  iterate(2);
  ASSERT_TRUE(executor().aliased());
  iterate_short();
  EXPECT_FALSE(executor().aliased());
  EXPECT_EQ(counts().left, 1u);
  until([this] { return executor().aliased(); });
  EXPECT_EQ(counts().aliased, 2u);
}

// As where a checkpoint is saved now and then: some op needs what is away.
TEST_F(Following, WhatEndsALayoutNowAndThenDoesNotForbidTheNext) {
  learn("12MiB");
  ASSERT_TRUE(adopt(laid_out({0, 1}, {2})));
  const auto end_after = [&](int iterations) {
    iterate(iterations);
    Held held(rig->mutex);
    ASSERT_TRUE(executor().dismantle(held));
  };
  for (int i = 0; i < 12; ++i) end_after(40);
  EXPECT_EQ(counts().aliased, 12u);
  for (int i = 0; i < 12; ++i) end_after(2);
  EXPECT_EQ(counts().aliased, 20u) << "it is in vain";
}

TEST_F(Following, ALayoutEndsWhereAnOpNeedsItsMemory) {
  learn("12MiB");
  ASSERT_TRUE(adopt(laid_out({0, 1}, {2})));
  iterate(2);
  ASSERT_TRUE(executor().aliased());
  const StreamHandle stream = *rig->device.create_stream();
  const auto whole = rig->allocate(rig->limits.cap, stream);
  ASSERT_TRUE(whole);
  const Access access{*whole, rig->limits.cap, Effect::overwrite};
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_TRUE(rig->submit({"fill", OpKind::set, stream, {&access, 1}}, [] {}));
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5)) << "nothing is in flight";
  EXPECT_FALSE(executor().aliased());
  ASSERT_TRUE(rig->free(*whole, stream));
  iterate(1);
}

TEST_F(Following, WithoutALayoutAPlanIsCarriedOutAllTheSameAndTheLackIsTold) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({0, 1}, {2})));
  EXPECT_FALSE(executor().take_lack(phase));
  executor().try_layout();
  EXPECT_EQ(executor().take_lack(phase), 0u) << "before an iteration is spent";
  EXPECT_FALSE(executor().take_lack(phase));
  iterate(2);
  EXPECT_FALSE(executor().aliased());
  EXPECT_EQ(counts().planned_iterations, 2u);
  ASSERT_TRUE(adopt(plan({0, 1}, {2}), /*placed=*/false));
  iterate(1);
  EXPECT_FALSE(executor().take_lack(phase)) << "it is to have none";
}

TEST_F(Following, ALayoutForOtherPlacesIsNotTaken) {
  learn("12MiB");
  Plan made = laid_out({0, 1}, {2});
  made.layout->items.back().held.back().to -= 1;
  ASSERT_EQ(what_is_wrong(*made.layout), "");
  ASSERT_TRUE(adopt(made));
  iterate(2);
  EXPECT_FALSE(executor().aliased());
  EXPECT_EQ(counts().planned_iterations, 2u);
  EXPECT_EQ(executor().take_lack(phase), 0u);
}

TEST_F(Following, PlansOfOtherPhasesAreThoseThatALayoutMustServeToo) {
  learn("12MiB");
  ASSERT_TRUE(adopt(plan({0}, {})));
  EXPECT_TRUE(executor().plans_beside(phase).empty());
  const tracker::PhaseIndex other{static_cast<std::uint32_t>(phase) + 1};
  ASSERT_EQ(executor().plans_beside(other).size(), 1u);
  EXPECT_EQ(executor().plans_beside(other)[0]->phase, known.profile.id);
  ASSERT_TRUE(adopt(plan({0}, {}), /*placed=*/false));
  EXPECT_TRUE(executor().plans_beside(other).empty()) << "it has no frames";
}

TEST_F(Following, AProfileSaysWhereBuffersLie) {
  learn("12MiB");
  Profile profile;
  profile.phases = {known.profile};
  executor().add_places(profile, {&known});
  std::set<std::uint32_t> ranges;
  for (const ProfileBuffer& buffer : profile.phases[0].buffers) {
    ASSERT_EQ(buffer.ranges.size(), 1u);
    ranges.insert(buffer.ranges[0]);
    EXPECT_EQ(profile.ranges.at(buffer.ranges[0]).bytes, map_bytes);
  }
  EXPECT_EQ(ranges.size(), profile.phases[0].buffers.size()) << "all are there at once";
}

}  // namespace
}  // namespace pooch::runtime
