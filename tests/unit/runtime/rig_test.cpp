#include "tests/support/rig.h"

#include <gtest/gtest.h>

#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

TEST(Rig, ItsProgramIsKnownAndFindsItsDataWhenMemoryIsShort) {
  constexpr int maps = 12;
  test::Rig rig(test::session_config("16MiB", "64MiB"));
  test::ChainProgram program(rig, maps);
  for (int i = 0; i < 6; ++i) {
    const Status done = program.iterate();
    ASSERT_TRUE(done) << done.error().message;
  }
  EXPECT_EQ(program.wrong(), 0);
  EXPECT_GT(rig.memory.residency->evictions(), 0u);
  const KnownPhase* const known = rig.profiler.plannable(tracker::PhaseIndex{0});
  ASSERT_NE(known, nullptr);
  EXPECT_TRUE(known->settled);
  ASSERT_EQ(known->profile.ops.size(), 2u * maps + 1);
  EXPECT_NEAR(known->profile.ops[maps].us, program.op_us, 0.001);
}

}  // namespace
}  // namespace pooch::runtime
