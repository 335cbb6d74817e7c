#include "runtime/memory/outside_account.h"

#include <gtest/gtest.h>

#include "tests/support/lazy_device.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;

constexpr std::uint64_t cap = 128 * MiB;

class Outside : public ::testing::Test {
 protected:
  Outside() {
    device.take_outside(10 * MiB);  // others were there before
    EXPECT_TRUE(account.open());
  }
  LazyDevice device{512 * MiB};
  HandlePool pool{device, cap};
  OutsideAccount account{device, pool, cap};
};

TEST_F(Outside, IsNothingAtFirst) {
  EXPECT_EQ(account.with(0), 0u);
  account.ask();
  EXPECT_EQ(account.with(0), 0u) << "what others had when the session opened is theirs";
}

TEST_F(Outside, IsTheChargesAndAPageForTheNext) {
  account.charge(512);
  EXPECT_EQ(account.with(0), 2 * page);
  EXPECT_EQ(account.with(page), 3 * page);
  account.discharge(512);
  EXPECT_EQ(account.with(0), 0u);
}

TEST_F(Outside, IsWhatTheDeviceSaysWhereThatIsMore) {
  account.charge(512);
  device.take_outside(6 * MiB);  // the driver packs loosely
  account.note_served(512);
  EXPECT_EQ(account.with(0), 6 * MiB + page);
}

TEST_F(Outside, ShrinksWhenOthersGiveMemoryBack) {
  device.take_outside(6 * MiB);
  account.ask();
  ASSERT_TRUE(account.publish());
  EXPECT_EQ(pool.taken_outside(), 6 * MiB + page);
  EXPECT_FALSE(account.shrinks());
  device.take_outside(-std::uint64_t{4} * MiB);
  EXPECT_TRUE(account.shrinks());
  EXPECT_EQ(pool.taken_outside(), 2 * MiB + page);
}

TEST_F(Outside, IsRoomyWhileAnEighthOfTheCapIsUntouched) {
  EXPECT_TRUE(account.roomy(cap - cap / 8));
  EXPECT_FALSE(account.roomy(cap - cap / 8 + 1));
}

// The device is asked at every allocation while the most that it ever said still grows, and seldom after
// that.
TEST_F(Outside, IsAskedSeldomOnceItIsSteady) {
  device.take_outside(MiB);
  for (int i = 0; i < 5000; ++i) account.note_served(0);
  device.take_outside(32 * MiB);
  account.note_served(0);
  EXPECT_LT(account.with(0), 32 * MiB) << "not asked";
  account.unsettle();
  account.note_served(0);
  EXPECT_GE(account.with(0), 32 * MiB);
}

}  // namespace
}  // namespace pooch::runtime
