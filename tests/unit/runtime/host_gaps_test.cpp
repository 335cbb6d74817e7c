#include "runtime/observe/host_gaps.h"

#include <gtest/gtest.h>

#include <numeric>

namespace pooch::runtime {
namespace {

std::vector<double> host_gaps(std::span<const TimedOp> ops) {
  const std::span<const TimedOp> one[] = {ops};
  return runtime::host_gaps(ops, usual_interval(one));
}

double sum(const std::vector<double>& gaps) {
  return std::accumulate(gaps.begin(), gaps.end(), 0.0);
}

TEST(HostGaps, AreWhatWasMeasuredWherePoochDisturbedNothing) {
  const std::vector<TimedOp> ops{{0, 10}, {10, 20}, {25, 30}, {28, 31}, {40, 41}};
  EXPECT_EQ(host_gaps(ops), (std::vector<double>{0, 0, 5, 0, 9}));
  EXPECT_TRUE(host_gaps({}).empty());
}

// A long op that pooch held up, then short ones that the host, having lost its lead, launches every 10 us.
TEST(HostGaps, AHostThatWasMadeToWaitWouldHaveKeptItsLead) {
  std::vector<TimedOp> ops{{0, 100}, {150, 1150, true}};
  for (int i = 0; i < 20; ++i) ops.push_back({1160 + 10.0 * i, 1162 + 10.0 * i});
  EXPECT_DOUBLE_EQ(sum(host_gaps(ops)), 0) << "in 1100 us it launches a hundred ops";
}

TEST(HostGaps, AHostThatIsSlowerThanTheDeviceIsSoUndisturbedToo) {
  std::vector<TimedOp> ops{{0, 2}};
  for (int i = 1; i < 100; ++i) ops.push_back({10.0 * i, 10.0 * i + 2});
  ops.push_back({1100, 1102, true});
  const std::vector<double> gaps = host_gaps(ops);
  EXPECT_NEAR(sum(gaps), 100 * 8, 10);
  EXPECT_NEAR(gaps.back(), 8, 1e-9) << "the rest of it is pooch's doing";
}

TEST(HostGaps, APauseOfTheProgramStays) {
  std::vector<TimedOp> ops{{0, 100}, {120, 220, true}};
  for (int i = 0; i < 10; ++i) ops.push_back({230 + 10.0 * i, 232 + 10.0 * i});
  ops.push_back({5000, 5100});
  EXPECT_GT(sum(host_gaps(ops)), 4000);
}

// The first iteration loads a module before its third op. All others are disturbed, so nothing else there
// says how long launches take; a later iteration does.
TEST(HostGaps, OnePauseOfTheFirstIterationIsNotTheUsualInterval) {
  std::vector<TimedOp> first{{0, 2}, {10, 12}, {550, 552}}, later;
  for (int i = 0; i < 50; ++i) first.push_back({1000.0 + 300 * i, 1002.0 + 300 * i, true});
  for (int i = 0; i < 53; ++i) later.push_back({20000.0 + 10 * i, 20002.0 + 10 * i, i == 50});
  const std::span<const TimedOp> iterations[] = {first, later};
  EXPECT_DOUBLE_EQ(usual_interval(iterations), 10);
  EXPECT_DOUBLE_EQ(runtime::host_gaps(first, usual_interval(iterations)).back(), 8);
}

// Each second op waits for memory; those behind them tell of the host.
TEST(HostGaps, AnOpBehindOneThatPoochHeldUpShowsTheHost) {
  std::vector<TimedOp> ops{{0, 2}};
  for (int i = 0; i < 50; ++i) {
    ops.push_back({500.0 * i + 100, 500.0 * i + 102, true});
    ops.push_back({500.0 * i + 115, 500.0 * i + 117});
  }
  const std::span<const TimedOp> one[] = {ops};
  EXPECT_DOUBLE_EQ(usual_interval(one), 15);
}

// The program reads its loss, and its copy waits for pooch's in the engine's queue. All long ops wait for
// memory.
TEST(HostGaps, OnePauseInManyOpsIsNotTheUsualInterval) {
  for (const int others : {60, 300}) {
    std::vector<TimedOp> ops{{0, 2}, {12000, 12010, true}, {27000, 27010}};
    for (int i = 1; i < others; ++i) ops.push_back({27000 + 35000.0 * i, 47000 + 35000.0 * i, true});
    const std::span<const TimedOp> one[] = {ops};
    EXPECT_DOUBLE_EQ(usual_interval(one), 0);
    EXPECT_LT(sum(host_gaps(ops)), 20000) << "the pause itself";
  }
}

// A device takes a moment between two ops by itself. That is no sign of a host that is behind.
TEST(HostGaps, WhatTheDeviceTakesBetweenOpsIsNotTheHostsDoing) {
  std::vector<TimedOp> ops{{0, 100}};
  for (int i = 1; i < 50; ++i) ops.push_back({101.0 * i, 101.0 * i + 100, i == 10});
  const std::span<const TimedOp> one[] = {ops};
  EXPECT_DOUBLE_EQ(usual_interval(one), 0);
  const std::vector<double> gaps = host_gaps(ops);
  EXPECT_NEAR(sum(gaps), 49, 1e-9) << "1 us each";
  EXPECT_NEAR(gaps[20], 1, 1e-9);
}

// As an H200 was seen to take 5 to 13 us where its streams wait for each other's events, behind ops of half a
// millisecond. The host had launched them all long before.
TEST(HostGaps, WhatTheDeviceTakesBehindALongOpIsNotTheHostsDoing) {
  std::vector<TimedOp> ops;
  double at = 0;
  for (int i = 0; i < 200; ++i) {
    const bool disturbed = i % 10 == 0;
    at += disturbed ? 2000 : 8;
    ops.push_back({at, at + 500, disturbed});
    at += 500;
  }
  const std::span<const TimedOp> one[] = {ops};
  EXPECT_DOUBLE_EQ(usual_interval(one), 0);
  EXPECT_DOUBLE_EQ(sum(host_gaps(ops)), 0) << "nor is what pooch took";
}

// One that had nothing to do ends where the long one before it did.
TEST(HostGaps, AnOpWithoutLengthDoesNotHideTheLongOneBeforeIt) {
  std::vector<TimedOp> ops;
  for (int i = 0; i < 100; ++i) {
    const double at = 1000.0 * i;
    ops.push_back({at, at + 980, i % 10 == 0});
    ops.push_back({at + 980, at + 980});
  }
  const std::span<const TimedOp> one[] = {ops};
  EXPECT_DOUBLE_EQ(usual_interval(one), 0);
  EXPECT_DOUBLE_EQ(sum(host_gaps(ops)), 0) << "20 us behind 980";
}

}  // namespace
}  // namespace pooch::runtime
