#include "runtime/session/failures.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace pooch::runtime {
namespace {

constexpr Refusal refusal(2, 999);

std::string said_by(auto&& work) {
  testing::internal::CaptureStderr();
  work();
  return testing::internal::GetCapturedStderr();
}

TEST(Failures, EachKindIsSaidOnceWhoeverMeetsIt) {
  Failures failures;
  EXPECT_TRUE(failures.first(Failures::Kind::full));
  EXPECT_TRUE(failures.first(Failures::Kind::pin)) << "another kind";
  EXPECT_FALSE(failures.first(Failures::Kind::full));
  std::atomic<int> firsts{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] { firsts += failures.first(Failures::Kind::trace) ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(firsts, 1);
}

TEST(Failures, WhatIsHarmlessIsReportedOnceAndLeavesTheSessionUsable) {
  Failures failures;
  const Error why{ErrorCode::device, "the driver says no"};
  EXPECT_EQ(said_by([&] {
              failures.report("evicting", why, "it stays"), failures.report("evicting", why, "it stays");
            }),
            "pooch: warning: evicting: the driver says no; it stays\n");
  EXPECT_FALSE(failures.failed());
}

TEST(Failures, OutOfMemoryIsForTheProgramToHandle) {
  Failures failures;
  const Error why{ErrorCode::out_of_memory, "no room"};
  const std::string said = said_by([&] {
    EXPECT_EQ(failures.refuse("f", why, /*doubtful=*/false, refusal), 2);
    EXPECT_EQ(failures.refuse("f", why, /*doubtful=*/false, refusal), 2);
  });
  EXPECT_EQ(said, "pooch: error: no room\n") << "the same shortage is said once";
  EXPECT_FALSE(failures.failed());
}

TEST(Failures, TheSameShortageIsSaidOnceWhateverCallsMeetIt) {
  Failures failures;
  const std::string said = said_by([&] {
    failures.refuse("f", {ErrorCode::out_of_memory, "f finds no room"}, /*doubtful=*/false, refusal);
    failures.refuse("g", {ErrorCode::out_of_memory, "g finds no room"}, /*doubtful=*/false, refusal);
    failures.refuse("g", {ErrorCode::out_of_memory, "g is too large"}, /*doubtful=*/false, refusal);
  });
  EXPECT_EQ(said, "pooch: error: f finds no room\npooch: error: g is too large\n");
  EXPECT_TRUE(failures.said_shortage());
}

TEST(Failures, AnythingElseEndsTheUseOfManagedMemory) {
  Failures failures;
  const std::string said = said_by([&] {
    EXPECT_EQ(failures.refuse("f", {ErrorCode::device, "lost"}, /*doubtful=*/false, refusal), 999);
    EXPECT_EQ(failures.refuse("g", {ErrorCode::out_of_memory, "no room"}, /*doubtful=*/false, refusal), 999);
  });
  EXPECT_TRUE(failures.failed());
  EXPECT_FALSE(failures.said_shortage());
  EXPECT_EQ(said,
            "pooch: error: f: lost; every call that uses device memory fails from now on, rather than read a "
            "doubtful value\n");
}

TEST(Failures, AShortageWhileMappingsAreInDoubtIsNoShortage) {
  Failures failures;
  said_by([&] {
    EXPECT_EQ(failures.refuse("f", {ErrorCode::out_of_memory, "no room"}, true, refusal), 999);
  });
  EXPECT_TRUE(failures.failed());
}

}  // namespace
}  // namespace pooch::runtime
