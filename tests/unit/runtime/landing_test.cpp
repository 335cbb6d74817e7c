// Ops that touch more than they say, and evicted memory that is mapped for them.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/faulty_device.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
constexpr int refused = 2;

Config with(const char* cap, LandingUse landing) {
  Config config = test::session_config(cap, "1GiB");
  config.landing = landing;
  return config;
}

struct Outcome {
  bool right;
  std::uint64_t landed_accesses;
};

// A random program, the last two thirds of which hide operands.
Outcome run(LazyDevice& device, Session& session, unsigned seed) {
  test::Program program(device, session, seed);
  bool right = program.run(50);
  program.hide();
  right = right && program.run(100) && program.check_all();
  device.drain();
  return {right && device.complaints().empty(), device.landed_accesses()};
}

TEST(Landing, RandomProgramsMayTouchWhatTheyDoNotName) {
  for (const LandingUse use : {LandingUse::automatic, LandingUse::on}) {
    std::uint64_t landed = 0;
    for (unsigned seed = 0; seed < 24; ++seed) {
      LazyDevice device(512 * MiB, seed);
      const std::string cap = std::to_string(20 + 2 * seed) + "MiB";
      {
        const auto session = Session::open(with(cap.c_str(), use), device);
        ASSERT_TRUE(session) << session.error().message;
        const Outcome outcome = run(device, **session, seed);
        ASSERT_TRUE(outcome.right) << "seed " << seed << ": "
                                   << (device.complaints().empty() ? "wrong words"
                                                                   : device.complaints().front());
        landed += outcome.landed_accesses;
        EXPECT_LE(device.peak_bytes(), (*session)->summary().cap_bytes);
      }
      EXPECT_TRUE(device.complaints().empty()) << "at the end: " << device.complaints().front();
    }
    EXPECT_GT(landed, 100u);
  }
}

TEST(Landing, ThreadsMayDoSoAtOnce) {
  std::uint64_t landed = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const auto session = Session::open(with("48MiB", LandingUse::automatic), device);
    ASSERT_TRUE(session) << session.error().message;
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (unsigned t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        test::Program program(device, **session, 3 * seed + t);
        program.hide();
        right += program.run(60) && program.check_all() ? 1 : 0;
      });
    for (std::thread& thread : threads) thread.join();
    device.drain();
    EXPECT_EQ(right, 3) << "seed " << seed;
    ASSERT_TRUE(device.complaints().empty()) << "seed " << seed << ": " << device.complaints().front();
    landed += device.landed_accesses();
  }
  EXPECT_GT(landed, 100u);
}

TEST(Landing, WithoutItTheSameProgramsGoWrong) {
  int wrong = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const auto session = Session::open(with("24MiB", LandingUse::off), device);
    ASSERT_TRUE(session) << session.error().message;
    wrong += !run(device, **session, seed).right;
  }
  EXPECT_GT(wrong, 4);
}

// The property above must be able to fail: each planted fault shows in some of the same programs.
TEST(Landing, PlantedFaultsSpoilIt) {
  for (const test::Fault fault :
       {test::Fault::lost_wait, test::Fault::early_free, test::Fault::hasty_reuse}) {
    int found = 0;
    for (unsigned seed = 0; seed < 40 && found == 0; ++seed) {
      LazyDevice device(512 * MiB, seed);
      test::FaultyDevice faulty(device, fault, 3 + 7 * seed);
      const auto session = Session::open(with("24MiB", LandingUse::on), faulty);
      ASSERT_TRUE(session);
      found += !run(device, **session, seed).right;
    }
    EXPECT_GT(found, 0) << "fault " << int(fault) << " was never found";
  }
}

// Nothing of the program's is in the way of an op that a host function holds up.
TEST(Landing, WhatAHostFunctionHoldsUpIsNotWaitedForForEver) {
  LazyDevice device(512 * MiB);
  const auto session = Session::open(with("20MiB", LandingUse::on), device);
  ASSERT_TRUE(session);
  const StreamHandle held = *device.create_stream(), stream = *device.create_stream();
  std::vector<Address> all;
  const auto touch = [&](Address address) {
    const Access access{address, 6 * MiB, Effect::read_write};
    return (*session)->submit(
        {"touch", OpKind::elementwise, stream, {&access, 1}}, [] { return 0; }, refused);
  };
  for (int i = 0; i < 4; ++i) {
    all.push_back(*(*session)->allocate(6 * MiB, std::nullopt));
    EXPECT_EQ(touch(all.back()), 0);
  }
  EXPECT_GT((*session)->summary().landings, 0u);
  device.block(held);
  (*session)->note_host_blocking(held);
  Call call{"roam", OpKind::bare_launch, held, {}};
  call.unforeseen = true;
  EXPECT_EQ((*session)->submit(
                call, [] { return 0; }, refused),
            0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(touch(all[0]), refused) << "the op that may be using it cannot end";
  EXPECT_NE(testing::internal::GetCapturedStderr().find("a host function blocks"), std::string::npos);
  device.unblock(held);
  EXPECT_EQ(touch(all[0]), 0);
}

// Four buffers of which three fit, touched in turns; an op of the first iterations may touch any memory.
TEST(Landing, EndsWhenWholeIterationsNameWhatTheyTouchAndBeginsAnew) {
  constexpr std::uint64_t bytes = 6 * MiB;
  for (const LandingUse use : {LandingUse::automatic, LandingUse::on}) {
    LazyDevice device(512 * MiB);
    const auto session = Session::open(with("20MiB", use), device);
    ASSERT_TRUE(session);
    const StreamHandle stream = *device.create_stream();
    std::vector<Address> all;
    for (int i = 0; i < 4; ++i) all.push_back(*(*session)->allocate(bytes, std::nullopt));
    const auto iterate = [&](bool foreseen) {
      for (unsigned i = 0; i < 20; ++i) {
        const Access access{all[i % all.size()], bytes, Effect::read_write};
        Call call{"touch", OpKind::elementwise, stream, {&access, 1}};
        call.traits = i;
        call.unforeseen = !foreseen && i == 7;
        EXPECT_EQ((*session)->submit(
                      call, [] { return 0; }, refused),
                  0);
      }
      device.drain();
    };
    const auto landings_of = [&](int iterations, bool foreseen) {
      const std::uint64_t before = (*session)->summary().landings;
      for (int i = 0; i < iterations; ++i) iterate(foreseen);
      return (*session)->summary().landings - before;
    };
    EXPECT_GT(landings_of(6, false), 0u);
    EXPECT_GT(landings_of(2, true), 0u) << "two iterations are looked at";
    landings_of(4, true);
    const std::uint64_t evictions = (*session)->summary().evictions;
    EXPECT_EQ(landings_of(6, true) == 0, use == LandingUse::automatic) << "who asked for landing keeps it";
    EXPECT_GT((*session)->summary().evictions, evictions);
    EXPECT_GT(landings_of(6, false), 0u);
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  }
}

}  // namespace
}  // namespace pooch::runtime
