#include "runtime/execution/remaking.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "runtime/execution/op_costs.h"
#include "runtime/session/session.h"
#include "tests/support/ladder.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::OpenDevice;
using test::session_config;

std::unique_ptr<Session> open(Device& device, const Config& config) {
  auto session = Session::open(config, device);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

// Digests of test devices are slow: they are asked for where they are what is tested.
Config short_of_memory(const char* cap, Verify verify = Verify::off) {
  Config config = session_config(cap, "256MiB");
  config.verify = verify;
  config.timer = Timer::none;  // what is timed for plans stays where it is
  return config;
}

TEST(Remaking, ProgramsThatRepeatThemselvesSeeTheirOwnDataWhereSomeIsDropped) {
  std::uint64_t replays = 0;
  for (unsigned seed = 0; seed < 24; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const std::string cap = std::to_string(24 + 2 * (seed % 12)) + "MiB";
    const auto session = open(device, short_of_memory(cap.c_str()));
    test::Program program(device, *session, seed);
    program.keep();
    if (seed % 4 == 3) program.hide();
    ASSERT_TRUE(program.repeat(8, 100)) << "seed " << seed << ": " << program.wrong_words() << " wrong words";
    device.drain();
    ASSERT_TRUE(device.complaints().empty()) << "seed " << seed << ": " << device.complaints().front();
    replays += session->summary().replays;
  }
  EXPECT_GT(replays, 500u);
}

// The property above must be able to fail.
TEST(Remaking, AWrongReplayShowsWhereNobodyLooksForIt) {
  int shown = 0;
  for (unsigned seed = 0; seed < 12; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const auto session = open(device, short_of_memory("32MiB"));
    test::Program program(device, *session, seed);
    program.keep(/*wrong=*/1);
    shown += !program.repeat(8, 100);
  }
  EXPECT_GT(shown, 0);
}

TEST(Remaking, AWrongReplayIsFoundAndTheCopyIsPutBack) {
  std::uint64_t found = 0;
  for (unsigned seed = 0; seed < 3; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const auto session = open(device, short_of_memory("32MiB", Verify::sample));
    test::Program program(device, *session, seed);
    program.keep(/*wrong=*/1);
    testing::internal::CaptureStderr();
    EXPECT_TRUE(program.repeat(4, 100)) << "seed " << seed << ": " << program.wrong_words() << " wrong words";
    (void)testing::internal::GetCapturedStderr();
    found += session->summary().mismatches;
  }
  EXPECT_GT(found, 0u);
}

// A loop of eight maps and two buffers more, 40 MiB, in 24.
class Loop : public test::Ladder<Session> {
 public:
  using Ladder::Ladder;

  // Between the two halves of an iteration something may come in between.
  void iterate(const std::function<void(Loop&)>& between) {
    twin(0);
    twin(1);
    forward();
    between(*this);
    for (int map = maps; map-- > 0;) backward(map);
    update();
  }
  Address weight() const { return weights(); }
  // Other work goes on while the host waits in a copy that changes the weights.
  void send_slowly(const std::function<void()>& meanwhile) {
    const Access whole{weights(), touched, Effect::overwrite};
    Call made{"send", OpKind::copy_in, StreamHandle::legacy, {&whole, 1}, /*blocks=*/true};
    EXPECT_EQ(session->submit(
                  made,
                  [&] {
                    meanwhile();
                    device().drain();
                    for (std::uint64_t i = 0; i < words; ++i)
                      if (auto* const w = word(weights(), i)) *w = 7 + i;
                    return 0;
                  },
                  2),
              0);
  }
  // A graph names the maps for a while.
  void hold_maps() {
    std::vector<Access> all;
    for (int each = 0; each < 3; ++each) all.push_back({map(each), touched, Effect::read_write});
    std::vector<Kept> kept;
    EXPECT_TRUE(session->hold(all, kept));
    session->let_go(kept);
  }
  void unknown() {
    Call made{"unknown", OpKind::bare_launch, StreamHandle::legacy, {}};
    made.unforeseen = true;
    EXPECT_EQ(session->submit(
                  made, [] { return 0; }, 2),
              0);
  }
  Session* session = nullptr;
};

struct Outcome {
  std::uint64_t result, replays;
};

Outcome run(const char* cap, const std::function<void(Loop&)>& between, unsigned seed = 0) {
  OpenDevice device(512 * MiB, seed);
  const auto session = open(device, short_of_memory(cap));
  Loop loop(device, *session);
  loop.session = session.get();
  for (int i = 0; i < 12; ++i) loop.iterate(between);
  const std::uint64_t result = loop.result();
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  return {result, session->summary().replays};
}

void nothing(Loop&) {}

TEST(Remaking, ALoopWithoutAPlanDropsAndMakesAgain) {
  const Outcome capped = run("24MiB", nothing);
  EXPECT_GT(capped.replays, 20u);
  EXPECT_EQ(capped.result, run("256MiB", nothing).result);
}

TEST(Remaking, WhatIsDroppedIsMadeBeforeItsInputsChange) {
  const auto change = [](Loop& loop) { loop.send(loop.weight(), StreamHandle::legacy); };
  const Outcome capped = run("24MiB", change);
  EXPECT_GT(capped.replays, 20u);
  EXPECT_EQ(capped.result, run("256MiB", change).result);
}

TEST(Remaking, WhatIsDroppedIsMadeBeforeAnOpThatNamesNothing) {
  const auto unknown = [](Loop& loop) { loop.unknown(); };
  EXPECT_EQ(run("24MiB", unknown).result, run("256MiB", unknown).result);
}

TEST(Remaking, WhatIsMadeFromMemoryThatACallIsChangingIsNotDropped) {
  const auto slowly = [](Loop& loop) {
    loop.send_slowly([&] {
      for (int map = 2; map < Loop::maps; ++map) loop.forward(map);
    });
  };
  EXPECT_EQ(run("24MiB", slowly).result, run("256MiB", slowly).result);
}

TEST(Remaking, WhatAGraphNamesForAWhileHasItsContentThenAndLater) {
  const auto hold = [](Loop& loop) { loop.hold_maps(); };
  for (unsigned seed = 0; seed < 12; ++seed)
    EXPECT_EQ(run("24MiB", hold, seed).result, run("256MiB", hold, seed).result) << "seed " << seed;
}

// Of each so many ops the first two wait.
double price_after(std::uint64_t interval) {
  LazyDevice device(64 * MiB);
  OpCosts costs(device);
  for (std::uint64_t op = 0; op < 20'000; ++op) costs.passed(op % interval < 2);
  return costs.us_per_byte();
}

TEST(OpCosts, AByteOnTheLinkIsDearerTheMoreOpsWait) {
  EXPECT_GT(price_after(250), 10 * price_after(1000));
  EXPECT_GT(price_after(1000), price_after(30'000));
}

TEST(OpCosts, AnOpThatWaitsAloneSaysNothing) {
  LazyDevice device(64 * MiB);
  OpCosts alone(device), never(device);
  for (int op = 0; op < 10'000; ++op) {
    alone.passed(op % 100 == 0);
    never.passed(false);
  }
  EXPECT_EQ(alone.us_per_byte(), never.us_per_byte());
}

TEST(OpCosts, WhereAllOpsWaitAByteHasAMostThatItIsWorth) {
  LazyDevice device(64 * MiB);
  OpCosts costs(device);
  for (int op = 0; op < 10'000; ++op) costs.passed(true);
  EXPECT_LE(costs.us_per_byte(), 1e-3);
}

}  // namespace
}  // namespace pooch::runtime
