// Sessions whose calls pass unknown until memory is about to be short.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "runtime/session/session.h"
#include "runtime/session/watch.h"
#include "tests/support/faulty_device.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
constexpr int refused = 2;

Config unwatched(const char* cap) {
  Config config = test::session_config(cap, "512MiB");
  config.watch_from_start = false;
  return config;
}

std::unique_ptr<Session> open(Device& device, const char* cap) {
  auto session = Session::open(unwatched(cap), device);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

// A call that sets the first word of the memory, as a wrapper makes it.
void write(Session& session, LazyDevice& device, StreamHandle stream, Address at, std::uint64_t bytes,
           std::uint64_t value) {
  const auto launch = [&] {
    device.launch(stream, [&device, at, value] {
      if (auto* const word = reinterpret_cast<std::uint64_t*>(device.translate(at, sizeof value)))
        *word = value;
    });
    return 0;
  };
  if (session.passing().lets_pass()) {
    launch();
    return session.passing().passed();
  }
  const Access access{at, bytes, Effect::overwrite};
  EXPECT_EQ(session.submit({"write", OpKind::set, stream, {&access, 1}}, launch, refused), 0);
}

std::uint64_t word_at(LazyDevice& device, Address at) {
  device.drain();
  const auto* const word = reinterpret_cast<std::uint64_t*>(device.translate(at, sizeof(std::uint64_t)));
  return word == nullptr ? 0 : *word;
}

TEST(SessionWatch, WhatFitsIsNotWatchedAndHasItsMemoryAtOnce) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "400MiB");
  test::Program program(device, *session, 7);
  ASSERT_TRUE(program.run(400));
  EXPECT_TRUE(program.check_all());
  EXPECT_GT(program.passed(), 300);
  const Summary summary = session->summary();
  EXPECT_EQ(summary.ops, 0u);
  EXPECT_GT(summary.need_bytes, 40 * MiB);
  EXPECT_EQ(summary.peak_device_bytes, device.peak_bytes());
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

TEST(SessionWatch, RandomProgramsThatBecomeShortSeeTheirOwnData) {
  int became_short = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    LazyDevice device(512 * MiB, seed);
    const auto session = open(device, std::to_string(40 + 2 * seed).append("MiB").c_str());
    test::Program program(device, *session, seed);
    ASSERT_TRUE(program.run(200)) << "seed " << seed;
    ASSERT_TRUE(program.check_all()) << "seed " << seed << ": " << program.wrong_words() << " wrong words";
    device.drain();
    ASSERT_TRUE(device.complaints().empty()) << "seed " << seed << ": " << device.complaints().front();
    const Summary summary = session->summary();
    EXPECT_LE(device.peak_bytes(), summary.cap_bytes);
    became_short += program.passed() > 4 && summary.evictions > 0;
  }
  EXPECT_GT(became_short, 14);
}

// The property above must be able to fail.
TEST(SessionWatch, PlantedFaultsSpoilRandomPrograms) {
  for (const test::Fault fault : {test::Fault::lost_wait, test::Fault::early_free}) {
    const test::Planted planted = test::plant(fault, unwatched("32MiB"));
    EXPECT_GT(planted.struck, 0) << "fault " << int(fault) << " was never planted";
    EXPECT_GT(planted.found, 0) << "fault " << int(fault) << " was never found";
  }
}

// A call that passed wrote memory that is evicted later: is what it wrote there afterwards?
bool survives_eviction(LazyDevice& device, Device& seen) {
  const auto session = open(seen, "40MiB");
  const StreamHandle stream = *device.create_stream();
  const Address early = *session->allocate(16 * MiB, stream);
  for (std::uint64_t value = 1; value <= 42; ++value) write(*session, device, stream, early, 16 * MiB, value);
  const Address large = *session->allocate(32 * MiB, stream);
  write(*session, device, stream, large, 32 * MiB, 1);
  EXPECT_GT(session->summary().evictions, 0u);
  const Access whole{early, 16 * MiB, Effect::read};
  bool there = false;
  const auto look = [&] {
    there = word_at(device, early) == 42;
    return 0;
  };
  EXPECT_EQ(session->submit({"read", OpKind::copy_out, stream, {&whole, 1}, /*blocks=*/true}, look, refused),
            0);
  return there && device.complaints().empty();
}

TEST(SessionWatch, WhatUnwatchedCallsWroteSurvivesItsEviction) {
  int lost = 0;
  for (unsigned seed = 0; seed < 8; ++seed) {
    LazyDevice device(512 * MiB, seed), spoilt(512 * MiB, seed);
    EXPECT_TRUE(survives_eviction(device, device));
    test::FaultyDevice faulty(spoilt, test::Fault::lost_drain, 1);
    lost += !survives_eviction(spoilt, faulty);
    EXPECT_TRUE(faulty.struck());
  }
  EXPECT_GT(lost, 0) << "whether or not the device is waited for";
}

TEST(SessionWatch, MemoryThatAnotherStreamFreedIsReusedBehindItsWork) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "400MiB");
  const StreamHandle owner = *device.create_stream(), other = *device.create_stream();
  // The second one that another stream frees is handed out again.
  const Address first = *session->allocate(4 * MiB, owner), second = *session->allocate(4 * MiB, owner);
  write(*session, device, other, first, 4 * MiB, 1);
  ASSERT_TRUE(session->free(first, other));
  ASSERT_TRUE(session->free(second, other));
  device.block(other);  // work that has nothing to do with it
  const Address again = *session->allocate(4 * MiB, owner);
  ASSERT_EQ(again, first);
  write(*session, device, owner, again, 4 * MiB, 2);
  const EventHandle written = *device.create_event();
  ASSERT_TRUE(device.record(written, owner));
  EXPECT_TRUE(device.synchronize(written)) << "it waits for no more than the free";
  EXPECT_EQ(word_at(device, again), 2u);
  device.unblock(other);
  EXPECT_EQ(session->summary().ops, 0u);
}

TEST(SessionWatch, MemoryFreedInAStreamIsWaitedForWhereItsNextUseHasNone) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "400MiB");
  const StreamHandle stream = *device.create_stream();
  const Address first = *session->allocate(4 * MiB, std::nullopt);
  write(*session, device, stream, first, 4 * MiB, 1);
  ASSERT_TRUE(session->free(first, stream));
  ASSERT_EQ(*session->allocate(4 * MiB, std::nullopt), first);
  const StreamHandle other = *device.create_stream();
  write(*session, device, other, first, 4 * MiB, 2);
  EXPECT_EQ(word_at(device, first), 2u);
}

TEST(SessionWatch, TablesOfAddressesThatKernelsWroteUnseenPinWhatTheyPointTo) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "40MiB");
  const StreamHandle stream = *device.create_stream();
  const Address hidden = *session->allocate(8 * MiB, stream), table = *session->allocate(2 * MiB, stream);
  write(*session, device, stream, table, 2 * MiB, raw(hidden) + 4096);
  write(*session, device, stream, hidden, 8 * MiB, 42);
  EXPECT_EQ(session->summary().pinned_allocations, 0u);
  for (int i = 0; i < 3; ++i) {
    const Address later = *session->allocate(12 * MiB, stream);
    write(*session, device, stream, later, 12 * MiB, 1);
  }
  EXPECT_GT(session->summary().evictions, 0u);
  EXPECT_EQ(session->summary().pinned_allocations, 1u);
  EXPECT_EQ(word_at(device, hidden), 42u) << "it is there, though no call names it";
  EXPECT_TRUE(device.complaints().empty());
}

TEST(SessionWatch, AddressesInCopiedMemoryPinWithoutAnOp) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "40MiB");
  const Address a = *session->allocate(6 * MiB, std::nullopt);
  const std::uint64_t words[] = {7, raw(a) + 4096};
  session->pin_addresses_in(HostBlock(std::as_bytes(std::span(words))));
  session->pin_addresses_in(HostBlock(std::as_bytes(std::span(words))));
  EXPECT_EQ(session->summary().pinned_bytes, 6 * MiB);
  EXPECT_EQ(session->summary().ops, 0u);
  EXPECT_TRUE(session->free(a, std::nullopt));
}

TEST(SessionWatch, WhereThePoolIsFullOfFreedRangesCallsAreWatched) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, "40MiB");
  const StreamHandle stream = *device.create_stream();
  for (std::uint64_t pages = 1; pages < 10; ++pages) {  // no two sizes are alike, so no range serves twice
    const Address one = *session->allocate(2 * pages * MiB, stream);
    write(*session, device, stream, one, 2 * pages * MiB, pages);
    ASSERT_TRUE(session->free(one, stream));
  }
  EXPECT_GT(session->summary().ops, 0u);
  EXPECT_LE(device.peak_bytes(), 40 * MiB);
  device.drain();
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

TEST(SessionWatch, ACaptureAndPassedThroughMemoryBeginToWatch) {
  LazyDevice device(512 * MiB);
  const auto captures = open(device, "40MiB"), passes = open(device, "40MiB");
  captures->capture_begins();
  EXPECT_FALSE(captures->passing().lets_pass());
  ASSERT_TRUE(passes->admit_pass_through(4 * MiB));
  EXPECT_TRUE(passes->passing().lets_pass());
  passes->passing().passed();
  ASSERT_TRUE(passes->admit_pass_through(17 * MiB));
  EXPECT_FALSE(passes->passing().lets_pass()) << "half of the cap is taken";
}

// As a program does whose batches all have other lengths.
TEST(SessionWatch, AllocationsOfVaryingSizesTakeLittleMoreThanTheMostThatLives) {
  LazyDevice device(8 * GiB);
  const auto session = open(device, "8GiB");
  const StreamHandle stream = *device.create_stream();
  std::mt19937 random(1);
  constexpr std::uint64_t most_live = 16 * 40 * MiB;
  for (int iteration = 0; iteration < 40; ++iteration) {
    std::vector<Address> live;
    const std::uint64_t length = 1 + random() % 20;
    for (int i = 0; i < 16; ++i) {
      live.push_back(*session->allocate(length * 2 * MiB, stream));
      write(*session, device, stream, live.back(), 2 * MiB, 1);
    }
    for (const Address at : live) ASSERT_TRUE(session->free(at, stream));
    device.drain();
  }
  EXPECT_LE(device.peak_bytes(), 2 * most_live);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

TEST(SessionWatch, AllocationsOfTheSameSizesLieWhereTheyLay) {
  LazyDevice device(8 * GiB);
  const auto session = open(device, "8GiB");
  const StreamHandle stream = *device.create_stream();
  std::vector<Address> first;
  for (int iteration = 0; iteration < 4; ++iteration) {
    std::vector<Address> live;
    for (std::uint64_t i = 1; i <= 8; ++i) live.push_back(*session->allocate(i * 2 * MiB, stream));
    for (const Address at : live) ASSERT_TRUE(session->free(at, stream));
    if (iteration == 0) first = live;
    EXPECT_EQ(live, first);
  }
}

TEST(Watch, BeginsOnceCallsThatAreOnTheirWayHavePassed) {
  Watch watch(false);
  ASSERT_TRUE(watch.lets_pass());
  std::atomic<bool> begun{false};
  std::thread other([&] {
    watch.begin();
    begun = true;
  });
  while (!watch.on()) std::this_thread::yield();
  EXPECT_FALSE(watch.lets_pass()) << "nobody comes after";
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_FALSE(begun);
  watch.passed();
  other.join();
  EXPECT_TRUE(begun);
}

TEST(Watch, ACallThatBeginsToWatchFromInsideDoesNotWaitForItself) {
  Watch watch(false);
  ASSERT_TRUE(watch.lets_pass());
  watch.begin();
  watch.passed();
  EXPECT_TRUE(watch.on());
}

TEST(Watch, ManyThreadsPassWhileItBegins) {
  for (int round = 0; round < 50; ++round) {
    Watch watch(false);
    std::atomic<int> inside{0};
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        while (!stop) {
          if (!watch.lets_pass()) return;
          ++inside;
          --inside;
          watch.passed();
        }
      });
    watch.begin();
    EXPECT_EQ(inside, 0) << "round " << round;
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace pooch::runtime
