#include "runtime/session/known_allocations.h"

#include <gtest/gtest.h>

namespace pooch::runtime {
namespace {

constexpr Address arena{GiB};

class Known : public ::testing::Test {
 protected:
  tracker::Tracker tracker;
  KnownAllocations known{tracker, arena};
};

TEST_F(Known, AnAddressIsFoundInTheAllocationAroundItWhileThatLives) {
  int origin = 0;
  known.add(arena + MiB, 100, /*managed=*/true, /*by_program=*/true, &origin, /*counts=*/true);
  for (const std::uint64_t inside : {0u, 50u, 99u}) {
    const auto found = known.find(arena + MiB + inside);
    ASSERT_TRUE(found) << inside;
    EXPECT_EQ(found->base, arena + MiB);
    EXPECT_EQ(found->bytes, 100u);
  }
  EXPECT_FALSE(known.find(arena + MiB + 100));
  EXPECT_FALSE(known.find(arena));
  EXPECT_EQ(known.origin_of(arena + MiB), &origin);
  EXPECT_EQ(known.origin_of(arena + MiB + 1), nullptr) << "not its start";
  ASSERT_TRUE(known.remove(arena + MiB));
  EXPECT_FALSE(known.find(arena + MiB));
  EXPECT_FALSE(known.remove(arena + MiB));
}

TEST_F(Known, OnlyManagedMemoryMakesTheArenaLonger) {
  known.add(Address{16}, 8, /*managed=*/false, true, nullptr, true);
  EXPECT_EQ(known.arena_used(), 0u);
  known.add(arena + 4 * MiB, MiB, /*managed=*/true, true, nullptr, true);
  known.add(arena, MiB, /*managed=*/true, true, nullptr, true);
  EXPECT_EQ(known.arena_used(), 5 * MiB);
  known.remove(arena + 4 * MiB);
  EXPECT_EQ(known.arena_used(), 5 * MiB) << "all that there ever was";
  EXPECT_EQ(known.all().size(), 2u);
}

}  // namespace
}  // namespace pooch::runtime
