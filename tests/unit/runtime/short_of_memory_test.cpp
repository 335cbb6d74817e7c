// A device that has less memory than the cap, or refuses it where nobody expects that: for a mapping, for
// access to one, inside of a call.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "runtime/session/session.h"
#include "tests/support/faulty_device.h"
#include "tests/support/lazy_device.h"
#include "tests/support/program.h"

namespace pooch::runtime {
namespace {

using test::Fault;
using test::LazyDevice;
using test::session_config;
using test::Strikes;
constexpr int refused = 2;
constexpr Fault refusals[] = {Fault::no_handle, Fault::no_mapping, Fault::no_access};

// Random programs under such a device: they end with the data that they should have.
void expect_own_data(LazyDevice& lazy, Device& device, const char* cap, unsigned seed, const char* what) {
  const auto session = Session::open(session_config(cap, "256MiB"), device);
  ASSERT_TRUE(session) << session.error().message;
  test::Program program(lazy, **session, seed);
  ASSERT_TRUE(program.run(150)) << what << ", seed " << seed;
  ASSERT_TRUE(program.check_all()) << what << ", seed " << seed << ": " << program.wrong_words()
                                   << " wrong words";
  lazy.drain();
  ASSERT_TRUE(lazy.complaints().empty()) << what << ", seed " << seed << ": " << lazy.complaints().front();
}

TEST(ShortOfMemory, OneRefusalIsLivedWith) {
  testing::internal::CaptureStderr();
  for (const Fault fault : refusals) {
    for (unsigned n = 1; n <= 11; n += 2) {
      LazyDevice lazy(512 * MiB, n);
      test::FaultyDevice device(lazy, fault, n);
      expect_own_data(lazy, device, "24MiB", n, "one refusal");
      EXPECT_TRUE(device.struck());
    }
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// Tables of mappings are in device memory as well.
struct Tables final : LazyDevice {
  Tables(std::uint64_t memory, unsigned seed, bool at_access)
      : LazyDevice(memory, seed), at_access_(at_access) {}
  Status map(Address at, std::uint64_t bytes, PhysicalHandle handle) override {
    return !at_access_ && lacking() ? out_of_memory() : LazyDevice::map(at, bytes, handle);
  }
  Status set_access(Address at, std::uint64_t bytes) override {
    return at_access_ && lacking() ? out_of_memory() : LazyDevice::set_access(at, bytes);
  }
  int refusals = 0;

 private:
  bool lacking() { return *free_bytes() < 2 * MiB && ++refusals > 0; }
  static Error out_of_memory() { return {ErrorCode::out_of_memory, "out of memory", 2}; }
  bool at_access_;
};

TEST(ShortOfMemory, WhereMappingTakesMemoryTooThePoolLeavesSome) {
  for (const bool at_access : {false, true}) {
    for (unsigned seed = 0; seed < 3; ++seed) {
      Tables device(64 * MiB, seed, at_access);
      testing::internal::CaptureStderr();
      expect_own_data(device, device, "64MiB", seed, at_access ? "access" : "mapping");
      EXPECT_EQ(testing::internal::GetCapturedStderr(),
                "pooch: warning: the device has less memory than the cap of 64 MiB: going on with 62 MiB\n");
      EXPECT_GT(device.refusals, 0);
      EXPECT_LT(device.refusals, 5) << "it is not asked for more again and again";
    }
  }
}

TEST(ShortOfMemory, ADeviceThatRefusesForEverRefusesTheOpAtOnce) {
  for (const Fault fault : refusals) {
    LazyDevice lazy(512 * MiB);
    test::FaultyDevice device(lazy, fault, 9, Strikes::always);
    const auto opened = Session::open(session_config("64MiB", "256MiB"), device);
    ASSERT_TRUE(opened);
    Session* const session = opened->get();
    const auto begin = std::chrono::steady_clock::now();
    testing::internal::CaptureStderr();
    int served = 0;
    for (; served < 20; ++served) {
      const Access access{*session->allocate(6 * MiB, std::nullopt), 6 * MiB, Effect::overwrite};
      if (session->submit(
              {"fill", OpKind::set, StreamHandle::legacy, {&access, 1}}, [] { return 0; }, refused) != 0)
        break;
    }
    EXPECT_GT(served, 0);
    EXPECT_LT(served, 10);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("fill cannot have its operands on the device: out of memory"), std::string::npos)
        << said;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
    EXPECT_TRUE(lazy.complaints().empty());
  }
}

TEST(ShortOfMemory, ACallOfPoochsOwnIsRefusedWithoutAWord) {
  LazyDevice device(512 * MiB);
  Config config = session_config("64MiB", "256MiB");
  config.landing = LandingUse::off;
  const auto opened = Session::open(config, device);
  ASSERT_TRUE(opened);
  Session* const session = opened->get();
  const std::array<Access, 2> together{
      {{*session->allocate(40 * MiB, std::nullopt), 40 * MiB, Effect::overwrite},
       {*session->allocate(40 * MiB, std::nullopt), 40 * MiB, Effect::overwrite}}};
  Call call{"fill", OpKind::set, StreamHandle::legacy, together};
  for (const bool own : {true, false}) {
    call.own = own;
    testing::internal::CaptureStderr();
    EXPECT_EQ(session->submit(
                  call, [] { return 0; }, refused),
              refused);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_EQ(said.find("error: fill needs 80.0 MiB at once") != std::string::npos, !own) << said;
  }
}

// A call in whose launch the driver lacks memory, as for code that it loads then.
int launch_late(Session& session, LazyDevice& device, const Access& operand, bool blocks) {
  Call call{"late", OpKind::elementwise, StreamHandle::legacy, {&operand, 1}};
  call.blocks = blocks;
  return session.submit(
      call,
      [&] {
        if (*device.free_bytes() < 2 * MiB && !session.relieve_device(0)) return refused;
        if (*device.free_bytes() < 2 * MiB) return refused;
        device.take_outside(2 * MiB);
        for (std::uint64_t at = 0; at < operand.bytes; at += 2 * MiB)
          device.launch(StreamHandle::legacy, [&device, address = operand.address + at] {
            if (auto* byte = device.translate(address, 1)) ++*reinterpret_cast<unsigned char*>(byte);
          });
        return 0;
      },
      refused);
}

TEST(ShortOfMemory, InsideOfACallOthersMakeRoomAndItsOperandsStay) {
  for (const bool blocks : {false, true}) {
    LazyDevice device(64 * MiB, blocks);
    const auto opened = Session::open(session_config("64MiB", "256MiB"), device);
    Session& session = **opened;
    testing::internal::CaptureStderr();
    std::vector<Access> all;
    for (int i = 0; i < 3; ++i) {
      all.push_back({*session.allocate(20 * MiB, std::nullopt), 20 * MiB, Effect::overwrite});
      ASSERT_EQ(session.submit(
                    {"fill", OpKind::set, StreamHandle::legacy, {&all[i], 1}},
                    [&] {
                      for (std::uint64_t at = 0; at < all[i].bytes; at += 2 * MiB)
                        device.launch(StreamHandle::legacy, [&device, address = all[i].address + at] {
                          if (auto* byte = device.translate(address, 1)) *byte = std::byte{7};
                        });
                      return 0;
                    },
                    refused),
                0);
      all[i].effect = Effect::read_write;
    }
    device.take_outside(*device.free_bytes());
    // Of each round the first is the one that has waited longest: what would leave, were it not for the call.
    for (int round = 1; round <= 4; ++round)
      for (const Access& one : all) ASSERT_EQ(launch_late(session, device, one, blocks), 0);
    (void)testing::internal::GetCapturedStderr();
    for (Access& one : all) {
      one.effect = Effect::read;
      ASSERT_EQ(session.submit(
                    {"read", OpKind::copy_out, StreamHandle::legacy, {&one, 1}},
                    [&] {
                      for (std::uint64_t at = 0; at < one.bytes; at += 2 * MiB)
                        device.launch(StreamHandle::legacy, [&device, address = one.address + at] {
                          if (const auto* byte = device.translate(address, 1)) {
                            EXPECT_EQ(*byte, std::byte{11});
                          }
                        });
                      return 0;
                    },
                    refused),
                0);
    }
    device.drain();
    EXPECT_TRUE(device.complaints().empty()) << device.complaints().front();
    EXPECT_GT(session.summary().evictions, 0u);
  }
}

TEST(ShortOfMemory, WhereTheThreadsOwnCallPassesNothingThatLivesLeaves) {
  LazyDevice device(64 * MiB);
  Config config = session_config("64MiB", "256MiB");
  config.watch_from_start = false;
  const auto opened = Session::open(config, device);
  Session& session = **opened;
  const Address lives = *session.allocate(10 * MiB, StreamHandle::legacy);
  const Address dead = *session.allocate(10 * MiB, StreamHandle::legacy);
  ASSERT_TRUE(session.passing().lets_pass());
  device.take_outside(*device.free_bytes());
  EXPECT_FALSE(session.relieve_device(0)) << "nobody knows what the call uses";
  session.passing().passed();
  EXPECT_NE(device.translate(lives, 1), nullptr);
  EXPECT_TRUE(session.free(dead, StreamHandle::legacy));
  EXPECT_TRUE(session.relieve_device(0));
  EXPECT_GE(*device.free_bytes(), 2 * MiB);
}

TEST(ShortOfMemory, TheDefaultCapIsWhatIsFreeLessSome) {
  const DeviceInfo device{"test", 16 * GiB, 2 * MiB, -1};
  Config config;
  EXPECT_EQ(settle_limits(config, device)->cap, 16 * GiB - 600 * MiB);
  EXPECT_EQ(settle_limits(config, device, 15 * GiB)->cap, 15 * GiB - 246 * MiB);
  EXPECT_EQ(settle_limits(config, device, 16 * GiB)->cap, 16 * GiB - 600 * MiB);
  config.memory_cap = SizeSetting{"16GiB"};
  EXPECT_EQ(settle_limits(config, device, 15 * GiB)->cap, 16 * GiB) << "as it was asked for";
}

}  // namespace
}  // namespace pooch::runtime
