#include "runtime/observe/like_ops.h"

#include <gtest/gtest.h>

namespace pooch::runtime {
namespace {

struct Made {
  std::string function;
  std::int32_t channels;  // of its result, which is the only thing it touches
  std::uint64_t bytes;
  double us = 0;
  std::string mode = {};
};

PhaseProfile phase(const std::vector<Made>& ops, std::uint32_t measured) {
  PhaseProfile made;
  made.measured = measured;
  for (const Made& each : ops) {
    made.functions.push_back(each.function);
    made.buffers.push_back({each.bytes, true});
    made.versions.push_back({static_cast<std::uint32_t>(made.buffers.size() - 1), 0, each.bytes});
    ProfileOp op;
    op.function = static_cast<std::uint32_t>(made.functions.size() - 1);
    op.shape = {1, 4, {each.channels}};
    op.mode = each.mode;
    op.us = each.us;
    op.writes = {static_cast<std::uint32_t>(made.versions.size() - 1)};
    made.ops.push_back(op);
  }
  return made;
}

std::vector<double> estimated(PhaseProfile phase, const std::vector<PhaseProfile>& from) {
  std::vector<const PhaseProfile*> measured;
  for (const PhaseProfile& each : from) measured.push_back(&each);
  if (!estimate_times(phase, measured)) return {};
  std::vector<double> us;
  double sum = 0;
  for (const ProfileOp& op : phase.ops) us.push_back(op.us), sum += op.us;
  EXPECT_DOUBLE_EQ(phase.iteration_us, sum);
  return us;
}

TEST(LikeOps, TheSameCallInAnotherPhaseTakesAsLong) {
  const auto train = phase({{"conv", 64, 1000, 70}, {"conv", 128, 1000, 90}, {"pool", 64, 1000, 5}}, 3);
  EXPECT_EQ(estimated(phase({{"conv", 128, 1000}, {"pool", 64, 1000}}, 0), {train}),
            (std::vector<double>{90, 5}));
}

TEST(LikeOps, ASmallerBatchTakesLessByItsBytes) {
  const auto train = phase({{"conv", 64, 999, 70}, {"conv", 64, 99999, 500}}, 3);
  const auto last = estimated(phase({{"conv", 64, 499}}, 0), {train});
  ASSERT_EQ(last.size(), 1u);
  EXPECT_NEAR(last[0], 35, 0.01) << "judged from the one of like size";
}

TEST(LikeOps, AnotherModeIsAnotherKindOfWork) {
  const auto train = phase({{"activation", 64, 1000, 7, "relu"}, {"activation", 64, 1000, 9, "tanh"}}, 3);
  EXPECT_EQ(estimated(phase({{"activation", 64, 1000, 0, "tanh"}}, 0), {train}), std::vector<double>{9});
}

TEST(LikeOps, WhatIsLikeNothingTakesTheTimeOfItsBytes) {
  const auto train = phase({{"conv", 64, 999, 70}, {"pool", 64, 999, 30}}, 3);
  const auto made = estimated(phase({{"softmax", 10, 1999}}, 0), {train});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_NEAR(made[0], 100, 0.01);
}

TEST(LikeOps, PhasesThatWereNotMeasuredTeachNothing) {
  const auto never = phase({{"conv", 64, 1000, 70}}, 0);
  EXPECT_TRUE(estimated(phase({{"conv", 64, 1000}}, 0), {never}).empty());
  EXPECT_TRUE(estimated(phase({{"conv", 64, 1000}}, 0), {}).empty());
}

}  // namespace
}  // namespace pooch::runtime
