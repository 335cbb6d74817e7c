// What lies beside a layout while it is made and while it is followed.
#include "runtime/execution/stays.h"

#include <gtest/gtest.h>

#include "tests/support/chain.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 4;

class Beside : public testing::Test {
 protected:
  // A buffer of `bytes` that the iteration finds, and frees before the op at `until`.
  void add(std::uint64_t bytes, std::int32_t until) {
    known_.profile.buffers.push_back({bytes, true, outside, until});
  }
  std::uint64_t most(std::vector<std::uint64_t> alive) {
    Plan plan;
    plan.phase = known_.profile.id;
    plan.structure = structure_of(known_.profile);
    const auto script = Script::compile(plan, known_, 0);
    EXPECT_TRUE(script) << script.error().message;
    // The chain's own buffers have places.
    Range range;
    std::vector<std::vector<Range*>> ranges(known_.profile.buffers.size());
    for (int map = 0; map < maps; ++map) ranges[static_cast<std::size_t>(map)] = {&range};
    return most_beside({&*script, &known_, ranges, {}}, std::move(alive));
  }

  KnownPhase known_ = test::chain_of(maps, 100);
};

TEST_F(Beside, WhatIsThereAndNoBufferOfThePhaseIsThereAllTheTime) {
  EXPECT_EQ(most({2 * MiB, 6 * MiB}), 8 * MiB);
}

TEST_F(Beside, WhatTheIterationFreesMakesRoomForWhatItAllocatesLater) {
  add(4 * MiB, 2);
  known_.profile.buffers.push_back({4 * MiB, true, 3, outside});
  EXPECT_EQ(most({4 * MiB}), 4 * MiB);
}

// It took its memory while the layout's was taken.
TEST_F(Beside, WhatIsFreedBeforeTheFirstOpIsThereWhileTheLayoutIsMade) {
  add(4 * MiB, 0);
  EXPECT_EQ(most({4 * MiB}), 4 * MiB);
  EXPECT_EQ(most({4 * MiB, 2 * MiB}), 6 * MiB);
}

}  // namespace
}  // namespace pooch::runtime
