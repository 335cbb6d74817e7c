// Replays whose results lie elsewhere than the calls' did. The plan drops two maps of the ladder, of which
// the second is made from the first and comes back ahead of it: the first is made again for it in temporary
// memory.
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "runtime/session/session.h"
#include "tests/support/ladder.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::OpenDevice;
using Ladder = test::Ladder<Session, /*small_parts=*/true>;
constexpr int iterations = 16;

Plan drop_third_and_fourth(const PhaseProfile& phase) {
  using Kind = PlanAction::Kind;
  constexpr std::int32_t backward_of_third = 13;
  Plan plan = test::empty_plan(phase);
  plan.maps = {test::planned_map(phase, 0, 2, MapClass::recompute, {2}),
               test::planned_map(phase, 1, 3, MapClass::recompute, {3})};
  plan.maps[0].brief = true;
  plan.after[4] = {{Kind::drop, 0}};
  plan.after[5] = {{Kind::drop, 1}};
  plan.before[backward_of_third - 1] = {{Kind::replay, 2}, {Kind::replay, 3}};
  plan.before[backward_of_third] = {{Kind::replay, 2}};
  return plan;
}

struct Course {
  std::uint64_t result = 0;
  Summary summary;
  Profile profile;
};

// `stray`: the last iteration but one does something else after so many ops.
Course run(unsigned seed, const Config& config, bool stray = false) {
  OpenDevice device(512 * MiB, seed);
  const auto session = Session::open(config, device);
  EXPECT_TRUE(session) << session.error().message;
  Ladder ladder(device, **session);
  for (int iteration = 0; iteration < iterations; ++iteration) {
    ladder.twin(0);
    ladder.twin(1);
    if (stray && iteration == iterations - 2) {
      ladder.forward();
      for (int map = Ladder::maps; map-- > 4;) ladder.backward(map);
      ladder.cousin(7);  // both are dropped
      for (int map = 4; map-- > 0;) ladder.backward(map);
      ladder.update();
    } else {
      ladder.rest();
    }
  }
  Course course{ladder.result(), (*session)->summary(), (*session)->profile()};
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  return course;
}

void expect_the_same(bool stray) {
  const Course in_core = run(1, test::session_config("64MiB", "256MiB"), stray);
  const test::PlanFile file(drop_third_and_fourth(in_core.profile.phases.at(0)));
  Config config = test::session_config("36MiB", "256MiB");
  config.plan_file = file.path;
  config.verify = Verify::all;
  for (unsigned seed = 0; seed < 2; ++seed) {
    const Course planned = run(seed, config, stray);
    EXPECT_EQ(planned.result, in_core.result) << "seed " << seed;
    EXPECT_GT(planned.summary.planned_iterations, 4u);
    EXPECT_GE(planned.summary.replays, 3 * planned.summary.planned_iterations);
    EXPECT_GT(planned.summary.verified, 0u);
    EXPECT_EQ(planned.summary.mismatches, 0u);
    EXPECT_EQ(planned.summary.plans_left, stray ? 1u : 0u);
  }
}

TEST(ExecutorReplay, WhatIsMadeFromADroppedMapIsMadeThroughTemporaryMemory) {
  expect_the_same(/*stray=*/false);
}

TEST(ExecutorReplay, WhereThePlanIsLeftEachMapIsMadeAgain) {
  expect_the_same(/*stray=*/true);
}

}  // namespace
}  // namespace pooch::runtime
