#include "runtime/execution/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/execution/prefetch_waits.h"
#include "tests/support/chain.h"
#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 6;  // made by ops 0 to 5, read by ops 6 to 11 in reverse order
constexpr int ops = 2 * maps;
constexpr double op_us = 100;

std::int32_t reader(int map) {
  return test::reader_in_chain(maps, map);
}

PhaseProfile chain() {
  return test::chain_of(maps, op_us);
}

// Swaps the first `count` maps; each comes back at its reader.
Script at_need(const PhaseProfile& phase, int count) {
  Plan plan;
  plan.phase = phase.id;
  plan.structure = structure_of(phase);
  for (int map = 0; map < maps; ++map) {
    const auto number = static_cast<std::uint32_t>(map);
    const bool swapped = map < count;
    plan.maps.push_back({number,
                         "map",
                         number,
                         2 * MiB,
                         swapped ? MapClass::swap : MapClass::keep,
                         swapped ? 2 * MiB : 0,
                         {},
                         "",
                         0,
                         MapClass::keep,
                         {}});
    if (!swapped) continue;
    plan.after[map].push_back({PlanAction::Kind::evict, number});
    plan.before[reader(map)].push_back({PlanAction::Kind::prefetch, number});
  }
  auto script = Script::compile(plan, phase, 0);
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

// Gradients: made by op 8, gone when op 3 of the next iteration is about to be computed.
TEST(ScriptLife, WhatOutlivesAnIterationIsStillThereAtTheBeginningOfTheNext) {
  PhaseProfile phase = chain();
  const auto made = static_cast<std::uint32_t>(phase.buffers.size());
  phase.buffers.push_back({4 * MiB, true, 8, outside});
  phase.buffers.push_back({4 * MiB, true, outside, 3});
  phase.buffers.push_back({6 * MiB, true, outside, 5});  // another's
  phase.versions.push_back({made, 0, 4 * MiB, 8, {}, Role::gradient});
  phase.ops[8].writes.push_back(static_cast<std::uint32_t>(phase.versions.size() - 1));
  phase.ops[8].operands.push_back(made);
  const ScriptLife life = at_need(phase, 0).life(made);
  EXPECT_TRUE(life.lasts);
  EXPECT_EQ(life.from, 0);
  EXPECT_EQ(life.away, 3);
  EXPECT_EQ(life.back, 8);
  EXPECT_EQ(life.to, ops - 1);
  EXPECT_EQ(life.moved, 4 * MiB);
}

}  // namespace
}  // namespace pooch::runtime
