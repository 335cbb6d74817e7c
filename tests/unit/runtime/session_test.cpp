#include "runtime/session/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "tests/support/faulty_device.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::session_config;
constexpr int refused = 2;

std::unique_ptr<Session> open(LazyDevice& device, const Config& config) {
  auto session = Session::open(config, device);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

int touch(Session& session, LazyDevice& device, std::initializer_list<Access> accesses,
          StreamHandle stream = StreamHandle::legacy, int status = 0) {
  return session.submit(
      {"touch", OpKind::elementwise, stream, {accesses.begin(), accesses.size()}}, [&] { return status; },
      refused);
}

TEST(Session, RandomProgramsSeeTheirOwnDataUnderEveryCapThatFits) {
  for (unsigned seed = 0; seed < 24; ++seed) {
    LazyDevice device(512 * MiB, seed);
    // The largest op touches two tensors of ten MiB; a cap of 20 MiB is the smallest that works.
    const std::string cap = std::to_string(20 + 2 * seed) + "MiB";
    const auto session = open(device, session_config(cap.c_str(), "256MiB"));
    test::Program program(device, *session, seed);
    ASSERT_TRUE(program.run(150)) << "seed " << seed;
    ASSERT_TRUE(program.check_all()) << "seed " << seed << ": " << program.wrong_words() << " wrong words";
    device.drain();
    ASSERT_TRUE(device.complaints().empty()) << "seed " << seed << ": " << device.complaints().front();
    const Summary summary = session->summary();
    EXPECT_LE(device.peak_bytes(), summary.cap_bytes);
    EXPECT_EQ(device.peak_bytes(), summary.peak_device_bytes);
    if (seed < 10) {
      EXPECT_GT(summary.evictions, 0u) << "seed " << seed;
    }
  }
}

// The property above must be able to fail: each planted fault shows in some of the same programs.
TEST(Session, PlantedFaultsSpoilRandomPrograms) {
  for (const test::Fault fault :
       {test::Fault::lost_wait, test::Fault::early_free, test::Fault::double_mapping,
        test::Fault::hasty_reuse, test::Fault::shared_slot}) {
    const test::Planted planted = test::plant(fault, session_config("24MiB", "256MiB"));
    EXPECT_GT(planted.struck, 0) << "fault " << int(fault) << " was never planted";
    EXPECT_GT(planted.found, 0) << "fault " << int(fault) << " was never found";
  }
}

TEST(Session, AnOpThatCannotFitUsesAPartOverTheLink) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const Address a = *session->allocate(16 * MiB, std::nullopt),
                b = *session->allocate(16 * MiB, std::nullopt);
  testing::internal::CaptureStderr();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::overwrite}, {b, 16 * MiB, Effect::overwrite}}),
              0);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pooch: warning: touch needs 32.0 MiB at once, and the cap is 20.0 MiB: it uses a part of that "
            "over the "
            "link, which is slow\n");
  EXPECT_GT(session->summary().landings, 0u);
  EXPECT_LE(device.peak_bytes(), 20 * MiB);
  EXPECT_TRUE(device.complaints().empty());
  EXPECT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::read}}), 0) << "it comes back";
  EXPECT_TRUE(device.complaints().empty());
}

TEST(Session, WhereNothingLandsAnOpThatCannotFitIsRefusedAndTheSmallestCapIsNamed) {
  LazyDevice device(512 * MiB);
  Config config = session_config("20MiB", "256MiB");
  config.landing = LandingUse::off;
  const auto session = open(device, config);
  const Address a = *session->allocate(16 * MiB, std::nullopt),
                b = *session->allocate(16 * MiB, std::nullopt);
  testing::internal::CaptureStderr();
  EXPECT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::overwrite}, {b, 16 * MiB, Effect::overwrite}}),
            refused);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "pooch: error: touch needs 32.0 MiB at once: the smallest cap that works is 32.0 MiB (32 MiB); it is "
      "20.0 MiB\n");
  EXPECT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::overwrite}}), 0) << "one at a time still works";
}

// Copied to the device: a word that points into `address`, between others.
void copy_table(Session& session, Address address) {
  const std::uint64_t words[] = {7, raw(address) + 4096, 0x123456789};
  session.pin_addresses_in(HostBlock(std::as_bytes(std::span(words))));
}

TEST(Session, WhatAnAddressInCopiedMemoryPointsToStaysUntilItIsFreed) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  std::vector<Address> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(*session->allocate(6 * MiB, std::nullopt));
    EXPECT_EQ(touch(*session, device, {{all[i], 6 * MiB, Effect::overwrite}}), 0);
  }
  EXPECT_GT(session->summary().evictions, 0u) << "the first is away";
  copy_table(*session, all[0]);
  copy_table(*session, all[0]);
  EXPECT_EQ(session->summary().pinned_allocations, 1u);
  EXPECT_EQ(session->summary().pinned_bytes, 6 * MiB);
  for (int round = 0; round < 3; ++round)
    for (int i = 1; i < 4; ++i)
      EXPECT_EQ(touch(*session, device, {{all[i], 6 * MiB, Effect::read_write}}), 0);
  const std::uint64_t before = session->summary().bytes_in;
  EXPECT_EQ(touch(*session, device, {{all[0], 6 * MiB, Effect::read}}), 0);
  EXPECT_EQ(session->summary().bytes_in, before) << "it is there";
  EXPECT_TRUE(session->free(all[0], std::nullopt));
  EXPECT_EQ(touch(*session, device,
                  {{all[1], 6 * MiB, Effect::read},
                   {all[2], 6 * MiB, Effect::read},
                   {all[3], 6 * MiB, Effect::read}}),
            0)
      << "its memory is to be had again";
  device.drain();
  EXPECT_TRUE(device.complaints().empty());
}

TEST(Session, NobodyWaitsForMemoryThatStays) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const Address a = *session->allocate(10 * MiB, std::nullopt),
                b = *session->allocate(16 * MiB, std::nullopt);
  EXPECT_EQ(touch(*session, device, {{a, 10 * MiB, Effect::overwrite}}), 0);
  copy_table(*session, a);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(touch(*session, device, {{b, 16 * MiB, Effect::overwrite}}), refused);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Session, AllocationFailsOnlyWhenCapAndHostBudgetAreExhausted) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "20MiB"));
  testing::internal::CaptureStderr();
  // A handle's worth of host memory stays free, so that what is out and what is in can change places.
  EXPECT_EQ(session->memory_info().granted, 38 * MiB);
  std::vector<Access> all;
  for (const std::uint64_t bytes : {10 * MiB, 10 * MiB, 10 * MiB, 8 * MiB}) {
    const auto a = session->allocate(bytes, std::nullopt);
    ASSERT_TRUE(a);
    all.push_back({*a, bytes, Effect::overwrite});
  }
  EXPECT_EQ(session->memory_info().free_bytes, 0u);
  for (int round = 0; round < 3; ++round)
    for (Access& one : all) {
      EXPECT_EQ(touch(*session, device, {one}), 0);
      one.effect = Effect::read_write;
    }
  const auto fifth = session->allocate(10 * MiB, std::nullopt);
  ASSERT_FALSE(fifth);
  EXPECT_EQ(fifth.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("the host budget 20.0 MiB"), std::string::npos);
}

TEST(Session, WhatIsToldIsADeviceOfTheCapsSizeAndWhatIsInUse) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("32MiB", "64MiB"));
  const auto expect = [&](std::uint64_t free, std::uint64_t total) {
    EXPECT_EQ(session->memory_info().free_bytes, free);
    EXPECT_EQ(session->memory_info().total_bytes, total);
    EXPECT_EQ(session->device_bytes(), 32 * MiB);
  };
  expect(32 * MiB, 32 * MiB);
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session->allocate(32 * MiB + 1, std::nullopt)) << "a single one beyond the cap";
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "pooch: warning: out of memory: one allocation of 32.0 MiB is more than the cap of 32.0 MiB; "
            "POOCH_MEMORY_INFO=all grants it\n");
  ASSERT_TRUE(session->allocate(20 * MiB, std::nullopt));
  expect(12 * MiB, 32 * MiB);
  ASSERT_TRUE(session->allocate(32 * MiB, std::nullopt)) << "what fits is no limit";
  expect(2 * MiB, 54 * MiB);
  ASSERT_TRUE(session->allocate(32 * MiB, std::nullopt));
  ASSERT_TRUE(session->allocate(10 * MiB, std::nullopt));
  expect(0, 94 * MiB);
}

TEST(Session, WhoWantsToKnowIsToldOfAllThatIsGranted) {
  LazyDevice device(512 * MiB);
  Config config = session_config("32MiB", "64MiB");
  config.memory_info = MemoryStory::all;
  const auto session = open(device, config);
  EXPECT_EQ(session->device_bytes(), 94 * MiB);
  ASSERT_TRUE(session->allocate(60 * MiB, std::nullopt));
  EXPECT_EQ(session->memory_info().free_bytes, 34 * MiB);
  EXPECT_EQ(session->memory_info().total_bytes, 94 * MiB);
}

TEST(Session, KeepEvictsNothingAndFailsAtTheCap) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB", Policy::keep));
  ASSERT_TRUE(session->allocate(16 * MiB, std::nullopt));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session->allocate(16 * MiB, std::nullopt));
  testing::internal::GetCapturedStderr();
}

TEST(Session, FreeingABadPointerIsAnErrorAndLosesNothing) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("64MiB", "256MiB"));
  const Address a = *session->allocate(4 * MiB, std::nullopt);
  EXPECT_EQ(session->free(a + 512, std::nullopt).error().code, ErrorCode::invalid_argument);
  EXPECT_TRUE(session->free(a, std::nullopt));
  EXPECT_EQ(session->free(a, std::nullopt).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(session->memory_info().free_bytes, session->memory_info().total_bytes);
}

TEST(Session, TheSameAllocationsGetTheSameAddressesInEveryIteration) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("32MiB", "256MiB"));
  const Address parameter = *session->allocate(6 * MiB, std::nullopt);
  (void)parameter;
  std::vector<Address> first;
  for (int iteration = 0; iteration < 3; ++iteration) {
    std::mt19937 random(7);
    std::vector<Address> seen, live;
    for (int i = 0; i < 40; ++i) {
      const Address a = *session->allocate((1 + random() % 4) * 2 * MiB, StreamHandle::legacy);
      seen.push_back(a);
      live.push_back(a);
      if (random() % 2 == 0) {
        ASSERT_TRUE(session->free(live.front(), StreamHandle::legacy));
        live.erase(live.begin());
      }
    }
    for (const Address a : live) ASSERT_TRUE(session->free(a, StreamHandle::legacy));
    if (iteration == 0) first = seen;
    EXPECT_EQ(seen, first) << "iteration " << iteration;
  }
}

TEST(Session, CleanChunksAreEvictedWithoutACopy) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const Address a = *session->allocate(16 * MiB, std::nullopt),
                b = *session->allocate(16 * MiB, std::nullopt);
  touch(*session, device, {{a, 16 * MiB, Effect::overwrite}});
  touch(*session, device, {{b, 16 * MiB, Effect::overwrite}});
  touch(*session, device, {{a, 16 * MiB, Effect::read}});
  const std::uint64_t out = session->summary().bytes_out;
  touch(*session, device, {{b, 16 * MiB, Effect::read}});
  touch(*session, device, {{a, 16 * MiB, Effect::read}});
  EXPECT_EQ(session->summary().bytes_out, out);
  EXPECT_TRUE(device.complaints().empty());
}

TEST(Session, DeadContentIsNeverCopied) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  for (int i = 0; i < 8; ++i) {
    const Address a = *session->allocate(16 * MiB, StreamHandle::legacy);
    touch(*session, device, {{a, 16 * MiB, i % 2 ? Effect::overwrite : Effect::scratch}});
    if (i % 2 != 0) {
      ASSERT_TRUE(session->free(a, StreamHandle::legacy));
    }
  }
  EXPECT_EQ(session->summary().bytes_out, 0u);
}

TEST(Session, ACallThatFailsLeavesWhatItWouldHaveOverwritten) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const Address a = *session->allocate(16 * MiB, std::nullopt),
                b = *session->allocate(16 * MiB, std::nullopt);
  const auto fill = [&](Address at, int value) {
    const Access access{at, 16 * MiB, Effect::overwrite};
    return session->submit(
        {"fill", OpKind::set, StreamHandle::legacy, {&access, 1}},
        [&] {
          device.launch(StreamHandle::legacy, [&device, at, value] {
            if (auto* p = device.translate(at, 1)) *p = std::byte(value);
          });
          return 0;
        },
        refused);
  };
  ASSERT_EQ(fill(a, 1), 0);
  ASSERT_EQ(fill(b, 2), 0);  // evicts a
  EXPECT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::overwrite}}, StreamHandle::legacy, /*status=*/3),
            3);
  ASSERT_EQ(touch(*session, device, {{a, 16 * MiB, Effect::read}}), 0);
  device.drain();
  EXPECT_EQ(*device.translate(a, 1), std::byte(1));
}

TEST(Session, PassedThroughMemoryMakesHandlesGiveWay) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const Address a = *session->allocate(18 * MiB, std::nullopt);
  touch(*session, device, {{a, 18 * MiB, Effect::overwrite}});
  ASSERT_TRUE(session->admit_pass_through(5 * MiB));
  EXPECT_LE(device.created_bytes(), 14 * MiB) << "5 MiB take three pages";
  session->passed_through(Address{0x7000}, 5 * MiB, true);
  EXPECT_EQ(session->summary().peak_device_bytes, 20 * MiB);
  EXPECT_TRUE(session->pass_through_freed(Address{0x7000}));
  EXPECT_EQ(touch(*session, device, {{a, 18 * MiB, Effect::read}}), 0) << "the room is back";
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session->admit_pass_through(21 * MiB)) << "passed-through memory cannot be moved to the host";
  testing::internal::GetCapturedStderr();
}

TEST(Session, TheCapHoldsWhatTheDeviceSaysIsTakenNotWhatWasAskedFor) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("40MiB", "256MiB"));
  const Address a = *session->allocate(30 * MiB, std::nullopt);
  touch(*session, device, {{a, 30 * MiB, Effect::overwrite}});
  // Eight small allocations that the driver spreads over eight pages.
  for (std::uint64_t i = 0; i < 8; ++i) {
    ASSERT_TRUE(session->admit_pass_through(4 * KiB));
    device.take_outside(2 * MiB);
    session->passed_through(Address{0x7000 + i * 0x1000}, 4 * KiB, true);
    ASSERT_LE(device.created_bytes() + (i + 1) * 2 * MiB, 40 * MiB) << "after " << i + 1;
  }
  EXPECT_LE(session->summary().peak_device_bytes, 40 * MiB);
}

TEST(Session, WhereTheDriverRefusesWhatTheCapAllowsMemoryIsGivenBack) {
  LazyDevice device(64 * MiB);
  const auto session = open(device, session_config("64MiB", "256MiB"));
  const Address a = *session->allocate(30 * MiB, std::nullopt),
                b = *session->allocate(30 * MiB, std::nullopt);
  touch(*session, device, {{a, 30 * MiB, Effect::overwrite}});
  touch(*session, device, {{b, 30 * MiB, Effect::overwrite}});
  device.take_outside(4 * MiB);  // the driver's own, counted by nobody
  ASSERT_EQ(*device.free_bytes(), 0u);
  ASSERT_TRUE(session->admit_pass_through(512 * KiB));
  for (std::uint64_t before = *device.free_bytes(), i = 0; i < 6; ++i) {
    ASSERT_TRUE(session->relieve_device(512 * KiB));
    EXPECT_GE(*device.free_bytes(), before + 2 * MiB) << "each time some more: nobody knows what it takes";
    before = *device.free_bytes();
  }
  session->refund(512 * KiB);
  EXPECT_TRUE(device.complaints().empty());
  EXPECT_EQ(touch(*session, device, {{a, 30 * MiB, Effect::read}}), 0);
  EXPECT_EQ(touch(*session, device, {{b, 30 * MiB, Effect::read}}), 0);
}

TEST(Session, ADeviceThatOthersFilledHasNothingToGiveBack) {
  LazyDevice device(64 * MiB);
  const auto session = open(device, session_config("64MiB", "256MiB"));
  device.take_outside(64 * MiB);
  EXPECT_FALSE(session->relieve_device(512 * KiB));
}

// A stream that reuses a freed range follows what used it, not what that stream got to do since.
TEST(Session, ARangeThatWasFreedIsFollowedUpToItsFreeAndNoFurther) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("64MiB", "256MiB"));
  const StreamHandle loader = *device.create_stream(), compute = *device.create_stream();
  const Address first = *session->allocate(4 * MiB, loader), map = *session->allocate(4 * MiB, compute);
  touch(*session, device, {{first, 4 * MiB, Effect::overwrite}}, loader);
  touch(*session, device, {{first, 4 * MiB, Effect::read}, {map, 4 * MiB, Effect::overwrite}}, compute);
  ASSERT_TRUE(session->free(first, compute));
  const Address second = *session->allocate(4 * MiB, loader);
  ASSERT_TRUE(session->free(second, compute));
  device.block(compute);  // work that has nothing to do with it
  touch(*session, device, {{map, 4 * MiB, Effect::read_write}}, compute);
  ASSERT_EQ(*session->allocate(4 * MiB, loader), first);
  touch(*session, device, {{first, 4 * MiB, Effect::overwrite}}, loader);
  const EventHandle copied = *device.create_event();
  ASSERT_TRUE(device.record(copied, loader));
  EXPECT_TRUE(device.synchronize(copied)) << "the loader waits for all that compute has to do";
  device.unblock(compute);
  device.drain();
  EXPECT_TRUE(device.complaints().empty());
}

TEST(Session, OfWhatIsDeadTheLongestUnusedMakesRoom) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("8MiB", "256MiB"));
  const StreamHandle busy = *device.create_stream(), idle = *device.create_stream();
  const Address late = *session->allocate(4 * MiB, busy), early = *session->allocate(4 * MiB, idle);
  touch(*session, device, {{early, 4 * MiB, Effect::overwrite}}, idle);
  device.block(busy);
  touch(*session, device, {{late, 4 * MiB, Effect::overwrite}}, busy);
  ASSERT_TRUE(session->free(late, busy));
  ASSERT_TRUE(session->free(early, idle));
  const Address other = *session->allocate(2 * MiB, idle);
  EXPECT_EQ(touch(*session, device, {{other, 2 * MiB, Effect::overwrite}}, idle), 0);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  device.unblock(busy);
}

TEST(Session, WhatOneStreamFreesIsNotGivenToAnother) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("64MiB", "256MiB"));
  const StreamHandle loader = *device.create_stream(), compute = *device.create_stream();
  const Address map = *session->allocate(4 * MiB, compute);
  touch(*session, device, {{map, 4 * MiB, Effect::overwrite}}, compute);
  device.block(compute);
  ASSERT_TRUE(session->free(map, compute));
  const Address batch = *session->allocate(4 * MiB, loader);
  touch(*session, device, {{batch, 4 * MiB, Effect::overwrite}}, loader);
  EXPECT_EQ(device.waits(), 0u) << "the loader waits for compute";
  device.unblock(compute);
  ASSERT_TRUE(session->free(batch, compute));
  session->stream_destroyed(loader);
  session->stream_destroyed(compute);
  EXPECT_EQ(*session->allocate(4 * MiB, std::nullopt), map)
      << "streams that are gone leave their ranges to all";
}

TEST(Session, WorkBehindAHostFunctionIsNotWaitedFor) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("20MiB", "256MiB"));
  const StreamHandle blocked = *device.create_stream();
  const Address a = *session->allocate(8 * MiB, std::nullopt), b = *session->allocate(8 * MiB, std::nullopt),
                c = *session->allocate(8 * MiB, std::nullopt);
  touch(*session, device, {{b, 8 * MiB, Effect::overwrite}}, blocked);
  ASSERT_TRUE(device.synchronize_all());
  device.block(blocked);
  session->note_host_blocking(blocked);
  touch(*session, device, {{a, 8 * MiB, Effect::overwrite}});
  touch(*session, device, {{b, 8 * MiB, Effect::read_write}}, blocked);
  // b was used last but one op ago and is as good a victim as a, but for the host function before it.
  EXPECT_EQ(touch(*session, device, {{c, 8 * MiB, Effect::overwrite}}), 0);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
  device.unblock(blocked);
}

TEST(Session, ThreadsShareTheDevice) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("24MiB", "256MiB"));
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const auto a = session->allocate((1 + (t + i) % 3) * 2 * MiB, StreamHandle{std::uintptr_t(10 + t)});
        if (!a) ++failures;
        const Access access{*a, 2 * MiB, Effect::overwrite};
        const int status = session->submit(
            {"touch", OpKind::elementwise, StreamHandle{std::uintptr_t(10 + t)}, {&access, 1}},
            [] { return 0; }, refused);
        if (status != 0) ++failures;
        if (i % 3 != 0 && !session->free(*a, StreamHandle{std::uintptr_t(10 + t)})) ++failures;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(Session, ACapThatCannotWorkIsRefusedAtOnce) {
  LazyDevice device(512 * MiB);
  const auto small = Session::open(session_config("1MiB", "1GiB"), device);
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().message,
            "POOCH_MEMORY_CAP: '1MiB' is too small: the smallest that works is 2.00 MiB");
  const auto large = Session::open(session_config("1GiB", "1GiB"), device);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("accepted are up to 512 MiB"), std::string::npos);
}

}  // namespace
}  // namespace pooch::runtime
