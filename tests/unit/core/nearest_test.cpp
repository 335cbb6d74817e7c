// Which name somebody meant.
#include "core/nearest.h"

#include <gtest/gtest.h>

#include <vector>

namespace pooch {
namespace {

const std::vector<std::string> names{"run", "record", "demand", "hybrid", "--memory", "--host-memory"};

TEST(Nearest, AnyOneMistakeIsForgiven) {
  for (const char* typed : {"hybird", "hybri", "hybrida", "hybrud", "ybrid"})
    EXPECT_EQ(nearest(typed, names), "hybrid") << typed;
  EXPECT_EQ(nearest("--host-memroy", names), "--host-memory");
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(did_you_mean("recrod", names), "; did you mean record?");
}

TEST(Nearest, WhatIsUnlikeAllOfThemIsNoMistake) {
  for (const char* typed : {"", "x", "train.py", "hyyyyyb", "--mem", "ls"})
    EXPECT_EQ(nearest(typed, names), std::nullopt) << typed;
  EXPECT_EQ(did_you_mean("ls", names), "");
}

TEST(Nearest, OfEquallyNearOnesTheFirstIsMeant) {
  EXPECT_EQ(nearest("cat", std::vector<std::string>{"bat", "car"}), "bat");
}

}  // namespace
}  // namespace pooch
