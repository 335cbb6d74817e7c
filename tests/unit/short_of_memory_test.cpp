// A device that has less memory than the cap, or refuses it where nobody expects that: for a mapping, for
// access to one, inside of a call.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "runtime/session.h"
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

}  // namespace
}  // namespace pooch::runtime
