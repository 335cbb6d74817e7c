// Addresses, and what the driver serves.
#include <gtest/gtest.h>

#include <string>

#include "runtime/session/session.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::LazyDevice;
using test::session_config;
constexpr int refused = 2;

std::unique_ptr<Session> open(Device& device, const Config& config) {
  auto session = Session::open(config, device);
  EXPECT_TRUE(session) << session.error().message;
  return std::move(*session);
}

// Sets the first byte, or reads it.
int write(Session& session, LazyDevice& device, Address at, std::uint64_t bytes, int value) {
  const Access access{at, bytes, Effect::overwrite};
  return session.submit(
      {"write", OpKind::set, StreamHandle::legacy, {&access, 1}},
      [&] {
        device.launch(StreamHandle::legacy, [&device, at, value] {
          if (std::byte* const byte = device.translate(at, 1)) *byte = std::byte(value);
        });
        return 0;
      },
      refused);
}
int read(Session& session, LazyDevice& device, Address at, std::uint64_t bytes) {
  const Access access{at, bytes, Effect::read};
  int found = -1;
  EXPECT_EQ(session.submit(
                {"read", OpKind::copy_out, StreamHandle::legacy, {&access, 1}, /*blocks=*/true},
                [&] {
                  device.drain();
                  if (const std::byte* const byte = device.translate(at, 1))
                    found = std::to_integer<int>(*byte);
                  return 0;
                },
                refused),
            0);
  return found;
}

// A driver that grants the fewest addresses that will do.
struct FewAddresses final : LazyDevice {
  using LazyDevice::LazyDevice;
  Result<Address> reserve(std::uint64_t bytes) override {
    if (bytes > 64 * GiB) return Error{ErrorCode::out_of_memory, "too many addresses"};
    return LazyDevice::reserve(bytes);
  }
};

TEST(SessionMemory, AddressesThatNobodyUsesServeOtherSizes) {
  FewAddresses device(512 * MiB);
  const auto session = open(device, session_config("256MiB", "256MiB"));
  const Address kept = *session->allocate(4 * MiB, StreamHandle::legacy);
  ASSERT_EQ(write(*session, device, kept, 4 * MiB, 7), 0);
  // Each size and each stream has ranges of its own: four times as many addresses as there are.
  std::uint64_t asked = 0;
  for (std::uintptr_t stream = 10; stream < 26; ++stream)
    for (std::uint64_t bytes = 256 * MiB; bytes > 6 * MiB; bytes -= 2 * MiB) {
      const auto address = session->allocate(bytes, StreamHandle{stream});
      ASSERT_TRUE(address) << address.error().message << " after " << asked / GiB << " GiB";
      if (bytes % (64 * MiB) == 0) {
        ASSERT_EQ(write(*session, device, *address, bytes, 1), 0);
      }
      ASSERT_TRUE(session->free(*address, StreamHandle{stream}));
      asked += bytes;
    }
  EXPECT_GT(asked, 200 * GiB);
  EXPECT_EQ(read(*session, device, kept, 4 * MiB), 7);
  EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
}

TEST(SessionMemory, ADeviceThatGrantsNoAddressesServesNobody) {
  struct NoAddresses final : LazyDevice {
    using LazyDevice::LazyDevice;
    Result<Address> reserve(std::uint64_t) override {
      return Error{ErrorCode::out_of_memory, "no addresses"};
    }
  } device(512 * MiB);
  const auto session = Session::open(session_config("64MiB", "64MiB"), device);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().message, "no addresses");
}

TEST(SessionMemory, WhatTheDriverServesIsKnownUntilItIsFreed) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("64MiB", "64MiB"));
  const Address at{0x7000};
  int origin = 0;
  const std::uint64_t before = session->memory_info().fits;
  ASSERT_TRUE(session->admit_pass_through(4 * KiB));
  session->passed_through(at, 4 * KiB, /*by_program=*/true, &origin);
  EXPECT_LT(session->memory_info().fits, before);
  EXPECT_FALSE(session->find(at)) << "it is not managed";
  ASSERT_TRUE(session->find_known(at + 100));
  EXPECT_EQ(session->find_known(at + 100)->base, at);
  EXPECT_FALSE(session->find_known(at + 4 * KiB));
  EXPECT_EQ(session->origin_of(at), &origin);
  EXPECT_EQ(session->allocations().size(), 1u);

  const auto freed = session->pass_through_freed(at);
  ASSERT_TRUE(freed && *freed);
  EXPECT_EQ((*freed)->bytes, 4 * KiB);
  EXPECT_EQ((*freed)->origin, &origin);
  EXPECT_TRUE((*freed)->by_program && (*freed)->counts);
  EXPECT_EQ(session->memory_info().fits, before);
  EXPECT_FALSE(session->find_known(at));
  session->pass_through_kept(at, **freed);  // the driver refused
  EXPECT_LT(session->memory_info().fits, before);
  EXPECT_EQ(session->origin_of(at), &origin);
  EXPECT_TRUE(*session->pass_through_freed(at));
  EXPECT_FALSE(*session->pass_through_freed(at)) << "it is not known any more";
  EXPECT_EQ(session->memory_info().fits, before);
}

TEST(SessionMemory, BlocksOfASlabCountAsAWhole) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("64MiB", "64MiB"));
  const std::uint64_t before = session->memory_info().fits;
  ASSERT_TRUE(session->admit_pass_through(4 * MiB));
  session->passed_through(4 * MiB);
  const std::uint64_t slab = session->memory_info().fits;
  EXPECT_LE(slab, before - 4 * MiB);
  session->placed(Address{0x7000}, 512, /*by_program=*/true, nullptr);
  EXPECT_TRUE(session->find_known(Address{0x7000}));
  EXPECT_EQ(session->memory_info().fits, slab);
  const auto freed = session->pass_through_freed(Address{0x7000});
  ASSERT_TRUE(freed && *freed);
  EXPECT_FALSE((*freed)->counts);
  EXPECT_EQ(session->memory_info().fits, slab);
  session->pass_through_kept(Address{0x7000}, **freed);
  EXPECT_TRUE(session->find_known(Address{0x7000}));
  EXPECT_EQ(session->memory_info().fits, slab);
  session->refund(4 * MiB);
  EXPECT_EQ(session->memory_info().fits, before);
}

TEST(SessionMemory, SmallAllocationsBeyondTheCapNameTheSmallestThatWorks) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("8MiB", "64MiB"));
  testing::internal::CaptureStderr();
  const auto admitted = session->admit_pass_through(9 * MiB);
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_FALSE(admitted);
  EXPECT_EQ(admitted.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(
      said,
      "pooch: error: 9.00 MiB of small allocations cannot leave the device: the smallest cap that works is "
      "12.0 MiB (12 MiB); it is 8.00 MiB\n");
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session->admit_pass_through(9 * MiB));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "said once";
}

TEST(SessionMemory, WhatStaysMakesNoRoomForSmallAllocations) {
  LazyDevice device(512 * MiB);
  const auto session = open(device, session_config("16MiB", "64MiB"));
  const Address graph = *session->allocate(12 * MiB, StreamHandle::legacy);
  ASSERT_EQ(write(*session, device, graph, 12 * MiB, 1), 0);
  const Access access{graph, 12 * MiB, Effect::read};
  std::vector<Kept> kept;
  ASSERT_TRUE(session->hold({&access, 1}, kept));
  testing::internal::CaptureStderr();
  EXPECT_FALSE(session->admit_pass_through(6 * MiB));
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("6.00 MiB that cannot leave the device do not fit beside what else stays on it"),
            std::string::npos)
      << said;
  session->let_go(kept);
  EXPECT_TRUE(session->admit_pass_through(6 * MiB)) << "it has left by now";
  session->refund(6 * MiB);
  EXPECT_EQ(read(*session, device, graph, 12 * MiB), 1);
}

}  // namespace
}  // namespace pooch::runtime
