#include "runtime/placement/foresight.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string_view>

namespace pooch::runtime {
namespace {

// Ops of one operand each: buffers are allocations, and `bytes` is what a longer sequence changes.
class Program {
 public:
  void run(std::string_view function, std::uint64_t buffer, std::uint64_t bytes = 4 * MiB) {
    tracker::Op op;
    op.description.function = function;
    op.local_key = std::hash<std::string_view>{}(function) + bytes;
    op.operands.push_back(
        {AllocationId{buffer}, Address{buffer << 32}, 0, bytes, Effect::read_write, true, 0});
    foresight.passed(op);
  }
  // 32 ops, of which the last touches the first one's buffer again.
  void iteration(std::uint64_t first_buffer, std::uint64_t bytes = 4 * MiB) {
    for (std::uint64_t i = 0; i < 31; ++i)
      run(i % 2 == 0 ? "convolution" : "activation", first_buffer + i, bytes);
    run("step", first_buffer, bytes);
  }
  NextTouch next() const { return foresight.next().front(); }

  Foresight foresight;
};

TEST(Foresight, TheFirstTimeNothingIsForeseen) {
  Program program;
  program.run("convolution", 1);
  EXPECT_FALSE(program.foresight.foresees());
  EXPECT_EQ(program.next().op, unknown_op);
}

TEST(Foresight, ABufferIsTouchedAgainAfterAsManyOpsAsBefore) {
  Program program;
  for (int i = 0; i < 2; ++i) program.iteration(1);
  program.run("convolution", 1);
  ASSERT_TRUE(program.foresight.foresees());
  EXPECT_EQ(program.next().op, program.foresight.now() + 31);
  EXPECT_FALSE(program.next().ends);
}

TEST(Foresight, TheBuffersOfANewIterationMayBeOthers) {
  Program program;
  for (std::uint64_t i = 0; i < 2; ++i) program.iteration(1 + 100 * i);
  program.run("convolution", 201);
  ASSERT_TRUE(program.foresight.foresees());
  EXPECT_EQ(program.next().op, program.foresight.now() + 31);
}

TEST(Foresight, ASequenceOfAnotherLengthIsKnownAgain) {
  Program program;
  program.iteration(1);
  for (std::uint64_t i = 0; i < 26; ++i)
    program.run(i % 2 == 0 ? "convolution" : "activation", 101 + i, 6 * MiB);
  program.run("convolution", 101 + 26, 6 * MiB);
  EXPECT_TRUE(program.foresight.foresees());
}

TEST(Foresight, WhatIsFreedEndsThere) {
  Program program;
  for (std::uint64_t i = 0; i < 2; ++i) {
    program.iteration(1 + 100 * i);
    program.foresight.freed(AllocationId{100 * i + 1});
  }
  program.iteration(201);
  EXPECT_EQ(program.next().op, program.foresight.now() + 1);
  EXPECT_TRUE(program.next().ends);
}

TEST(Foresight, WhatIsWrittenAnewAndFreedIsForeseen) {
  Program program;
  for (std::uint64_t i = 0; i < 2; ++i) {
    program.iteration(1 + 100 * i);
    program.foresight.freed(AllocationId{100 * i + 1});
  }
  ASSERT_TRUE(program.foresight.foresees());
  EXPECT_EQ(program.foresight.change(1).written_anew, 4 * MiB);
  EXPECT_EQ(program.foresight.change(32).written_anew, 0);
  EXPECT_EQ(program.foresight.change(32).freed, 4 * MiB);
}

TEST(Foresight, AfterSomethingElseTheSequenceIsFoundAgain) {
  Program program;
  for (int i = 0; i < 2; ++i) program.iteration(1);
  for (std::uint64_t i = 0; i < 40; ++i) program.run("sort", 1000 + i);
  program.iteration(1);
  program.run("convolution", 1);
  ASSERT_TRUE(program.foresight.foresees());
  EXPECT_EQ(program.next().op, program.foresight.now() + 31);
}

TEST(Foresight, WhereMostGuessesAreWrongNothingIsForeseen) {
  constexpr std::array<std::string_view, 5> functions{"gemm", "add", "norm", "softmax", "copy"};
  Program program;
  std::uint64_t state = 1;
  for (std::size_t i = 0; i < 2000; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    program.run(functions[i % functions.size()], 1 + (state >> 33) % 50);
  }
  EXPECT_FALSE(program.foresight.foresees());
  for (int i = 0; i < 20; ++i) program.iteration(101);
  EXPECT_TRUE(program.foresight.foresees());
}

TEST(Foresight, MuchIsForgottenButNotTheLatest) {
  Program program;
  for (int i = 0; i < 6000; ++i) program.iteration(1);
  program.run("convolution", 1);
  ASSERT_TRUE(program.foresight.foresees());
  EXPECT_EQ(program.next().op, program.foresight.now() + 31);
}

}  // namespace
}  // namespace pooch::runtime
