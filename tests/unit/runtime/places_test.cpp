// What lies beside a layout while it is made and while it is followed.
#include "runtime/script/places.h"

#include <gtest/gtest.h>

#include "core/pages.h"
#include "tests/support/chain.h"

namespace pooch::runtime {
namespace {

constexpr int maps = 4;

class Beside : public testing::Test {
 protected:
  // A buffer of `bytes` that the iteration finds, and frees before the op at `until`.
  void add(std::uint64_t bytes, std::int32_t until) {
    phase_.buffers.push_back({bytes, true, outside, until, {}});
  }
  // Without the page for what is rounded. `alive`: allocations that are there.
  std::uint64_t most(const std::vector<std::uint64_t>& alive) {
    Plan plan;
    plan.phase = phase_.id;
    plan.structure = structure_of(phase_);
    const auto script = Script::compile(plan, phase_, 0);
    EXPECT_TRUE(script) << script.error().message;
    std::vector<ProfileRange> ranges{{2 * MiB, false}};  // the chain's own buffers have places
    for (const std::uint64_t bytes : alive) ranges.push_back({bytes, true});
    std::vector<PlacedPhase> phases{{&*script, &phase_, {}}};
    phases[0].ranges.resize(phase_.buffers.size());
    for (int map = 0; map < maps; ++map) phases[0].ranges[static_cast<std::size_t>(map)] = {0};
    return bytes_beside(places_of(phases, ranges, 1 << 30), phases, ranges) - page;
  }

  PhaseProfile phase_ = test::chain_of(maps, 100);
};

TEST_F(Beside, WhatIsThereAndNoBufferOfThePhaseIsThereAllTheTime) {
  EXPECT_EQ(most({2 * MiB, 6 * MiB}), 8 * MiB);
}

TEST_F(Beside, WhatTheIterationFreesMakesRoomForWhatItAllocatesLater) {
  add(4 * MiB, 2);
  phase_.buffers.push_back({4 * MiB, true, 3, outside, {}});
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
