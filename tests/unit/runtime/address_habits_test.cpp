#include "runtime/memory/address_habits.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/memory/address_space.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t bytes = 2 * MiB;

// A program of one phase that makes a result before op 1 of each iteration, frees the one before, and uses
// two others afterwards.
class Habits : public testing::Test {
 protected:
  Address allocate(std::uint64_t position) {
    const auto address = space.allocate(bytes, StreamHandle{}, {0, iteration * 10, position});
    EXPECT_TRUE(address);
    return *address;
  }
  void iterate() {
    const Address made = allocate(1);
    if (iteration > 0) space.free(result.back());
    result.push_back(made);
    first.push_back(allocate(2));
    second.push_back(allocate(2));
    space.free(first.back());
    space.free(second.back());
    ++iteration;
  }

  AddressSpace space{Address{GiB}, 100 * bytes};
  std::uint64_t iteration = 0;
  std::vector<Address> result, first, second;
};

TEST_F(Habits, AResultThatOverlapsTheOneBeforeHasTwoPlacesAndOthersKeepTheirs) {
  for (int i = 0; i < 12; ++i) iterate();
  for (std::size_t i = 6; i < 12; ++i) {
    EXPECT_EQ(result[i], result[i - 2]);
    EXPECT_NE(result[i], result[i - 1]);
    EXPECT_EQ(first[i], first[i - 1]);
    EXPECT_EQ(second[i], second[i - 1]);
  }
}

TEST_F(Habits, OneThatNeverFindsItsPlaceTakesFewNewOnes) {
  std::vector<Address> kept;
  for (int i = 0; i < 20; ++i, ++iteration) kept.push_back(allocate(1));
  EXPECT_LT(*std::max_element(kept.begin(), kept.end()) - Address{GiB}, 21 * bytes);
}

// A loader fills one while the other is read: nobody else had either.
TEST_F(Habits, OneThatHasTwoPlacesInTurnKeepsThem) {
  const Address other = *space.allocate(bytes);
  space.free(other);
  std::vector<Address> all;
  for (; iteration < 8; ++iteration) {
    all.push_back(allocate(0));
    if (iteration > 0) space.free(all[iteration - 1]);
  }
  for (std::size_t i = 2; i < all.size(); ++i) EXPECT_EQ(all[i], all[i - 2]);
}

TEST(AddressHabits, TellAllocationsOfOneSizeApartByTheirOrder) {
  AddressHabits habits;
  const auto made = [&](std::uint32_t phase, std::uint64_t position, std::uint64_t address) {
    habits.note(habits.next({phase, 0, position}, bytes), Address{address});
  };
  made(0, 3, 1), made(0, 3, 2), made(0, 4, 3), made(1, 4, 4);
  const auto first_of = [&](const AddressHabits::Allocation& of) { return habits.earlier(of).front(); };
  EXPECT_EQ(first_of(habits.next({0, 20, 3}, bytes)), Address{1});
  EXPECT_EQ(first_of(habits.next({0, 20, 3}, bytes)), Address{2});
  EXPECT_TRUE(habits.earlier(habits.next({0, 20, 3}, 2 * bytes)).empty());
  EXPECT_TRUE(habits.earlier(habits.next({0, 20, 3}, bytes)).empty()) << "the third of its size";
  EXPECT_EQ(first_of(habits.next({0, 20, 4}, bytes)), Address{3});
}

TEST(AddressHabits, KnowWhoseAnAddressIsInAPhase) {
  AddressHabits habits;
  const auto one = habits.next({0, 0, 1}, bytes), other = habits.next({0, 0, 2}, bytes),
             elsewhere = habits.next({1, 0, 1}, bytes);
  EXPECT_FALSE(habits.is_anothers(Address{7}, one));
  habits.note(one, Address{7});
  EXPECT_FALSE(habits.is_anothers(Address{7}, one));
  EXPECT_TRUE(habits.is_anothers(Address{7}, other));
  EXPECT_FALSE(habits.is_anothers(Address{7}, elsewhere)) << "its phase is over by then";
}

TEST(AddressHabits, RememberTheLatestFewFirst) {
  AddressHabits habits;
  const auto one = habits.next({0, 0, 1}, bytes);
  const auto earlier = [&] {
    const auto all = habits.earlier(one);
    return std::vector<Address>(all.begin(), all.end());
  };
  for (std::uint64_t i = 1; i <= 6; ++i) habits.note(one, Address{i});
  EXPECT_EQ(earlier(), (std::vector<Address>{Address{6}, Address{5}, Address{4}, Address{3}}));
  habits.note(one, Address{4});
  EXPECT_EQ(earlier(), (std::vector<Address>{Address{4}, Address{6}, Address{5}, Address{3}}));
}

}  // namespace
}  // namespace pooch::runtime
