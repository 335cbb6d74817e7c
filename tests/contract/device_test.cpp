// The device battery over libcuda: the software GPU in the suite `contract`, silicon in the suite `gpu`,
// where exit code 77 says that there is none.
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <random>
#include <span>
#include <string>

#include "core/substitute.h"
#include "interpose/device/real_device.h"
#include "tests/support/device_battery.h"
#include "tests/support/driver.h"

namespace pooch::test {
namespace {

Device* libcuda_device() {
  static auto device = interpose::RealDevice::open();
  if (!device) {
    ADD_FAILURE() << device.error().message;
    return nullptr;
  }
  return device->get();
}

INSTANTIATE_TEST_SUITE_P(Libcuda, DeviceBattery, testing::Values(DeviceUnderTest{"libcuda", libcuda_device}),
                         [](const auto& under_test) { return std::string(under_test.param.name); });

// The kernel's flags of the mapping around an address: words of two letters; empty where there is none.
std::string flags_of_mapping(const void* address) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t from = 0, to = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &from, &to) == 2)
      inside =
          from <= reinterpret_cast<std::uintptr_t>(address) && reinterpret_cast<std::uintptr_t>(address) < to;
    if (inside && line.starts_with("VmFlags:")) return line + " ";
  }
  return {};
}

// A child that had it would part what this process writes from what the device reads.
TEST(HostMemory, LargePageLockedMemoryIsNotForChildrenNorForDumps) {
  Device* const device = libcuda_device();
  ASSERT_NE(device, nullptr);
  std::byte* const memory = *device->host_allocate(64 * MiB);
  for (const std::byte* at : {memory, memory + 64 * MiB - 1}) {
    EXPECT_NE(flags_of_mapping(at).find(" dc "), std::string::npos) << flags_of_mapping(at);
    EXPECT_NE(flags_of_mapping(at).find(" dd "), std::string::npos) << flags_of_mapping(at);
  }
  ASSERT_TRUE(device->host_free(memory));
  EXPECT_TRUE(flags_of_mapping(memory).find(" dc ") == std::string::npos) << "it is still there";
}

struct BatchNormCase {
  const char* name;
  BatchNorm how;
  std::uint32_t ahead = 0;  // elements before x and y, so that they are not aligned
};

const BatchNormCase batch_norm_cases[] = {
    {"rows of 49, in several strides of the grid", {64000, 49, 64}},
    {"rows of 49 halves, in several strides of the grid", {100000, 49, 64, true, true}},
    {"rows of 196", {300, 196, 1}},
    {"rows of 3136 halves", {30, 3136, 7, true, true}},
    {"rows shorter than 16 bytes", {1001, 3, 5}},
    {"rows of one half", {1001, 1, 5, true, true}},
    {"channels last", {1000, 64, 64, false}},
    {"channels last, halves", {1001, 20, 20, false, true}},
    {"channels last, an odd number", {1000, 7, 7, false}},
    {"not aligned", {130, 49, 3}, 1},
    {"not aligned halves, channels last", {130, 36, 36, false, true}, 3},
};

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}
std::uint16_t bits(_Float16 value) {
  return std::bit_cast<std::uint16_t>(value);
}

struct BatchNormChannel {
  float scale, bias, mean, inverse;
};

// This file is compiled without contraction: what is no fma here rounds twice.
float normalised(Formula formula, float x, const BatchNormChannel& c) {
  const float slope = c.scale * c.inverse;
  switch (formula) {
    case Formula::scaled_then_fma:
      return std::fma((x - c.mean) * c.scale, c.inverse, c.bias);
    case Formula::normalised_then_fma:
      return std::fma((x - c.mean) * c.inverse, c.scale, c.bias);
    case Formula::centred_then_fma:
      return std::fma(x - c.mean, slope, c.bias);
    default:
      return std::fma(x, slope, c.bias - c.mean * slope);
  }
}

// A copy on the device of what lies in page-locked memory, which has x, y, the channels' numbers and
// `differs`.
class BatchNormBattery : public DeviceBattery {
 protected:
  static constexpr std::uint64_t most = 8 * page, places = 3;

  void SetUp() override {
    DeviceBattery::SetUp();
    if (HasFatalFailure()) return;
    memory_ = *device_->host_allocate(places * most);
    handle_ = *device_->create(places * most);
    back(base_, handle_, places * most);
  }
  void TearDown() override {
    if (memory_ != nullptr) {
      EXPECT_TRUE(device_->synchronize_all());
      EXPECT_TRUE(device_->unmap(base_, places * most));
      EXPECT_TRUE(device_->destroy(handle_));
      EXPECT_TRUE(device_->host_free(memory_));
    }
    DeviceBattery::TearDown();
  }
  template <class T>
  std::span<T> host(std::uint64_t from, std::uint64_t count) {
    return {reinterpret_cast<T*>(memory_ + from), count};
  }
  void copy_in(std::uint64_t from, std::uint64_t bytes) {
    ASSERT_TRUE(device_->copy_in(base_ + from, memory_ + from, bytes, stream_));
    finish(stream_);
  }
  void copy_out(std::uint64_t from, std::uint64_t bytes) {
    ASSERT_TRUE(device_->copy_out(memory_ + from, base_ + from, bytes, stream_));
    finish(stream_);
  }

  template <class T>
  void check(const BatchNormCase& one) {
    const std::uint64_t elements = one.how.rows * one.how.row, ahead = one.ahead * sizeof(T);
    ASSERT_LE(elements * sizeof(T) + ahead, most);
    const auto x = host<T>(ahead, elements), y = host<T>(most + ahead, elements);
    const auto numbers = host<float>(2 * most, std::uint64_t{4} * one.how.channels);
    const auto differs = host<std::array<std::uint32_t, formulas>>(3 * most - page, 1);
    std::mt19937 source(11);
    std::uniform_real_distribution<float> small(-4, 4), positive(0.2F, 3);
    for (T& each : x) each = static_cast<T>(small(source));
    x[elements / 2] = static_cast<T>(std::nanf(""));
    for (float& each : numbers) each = positive(source);
    copy_in(0, 3 * most);
    const auto number = [&](std::uint64_t kind) { return base_ + (2 * most + kind * one.how.channels * 4); };
    NormaliseCall call{one.how,
                       {base_ + ahead, base_ + (most + ahead), number(0), number(1), number(2), number(3)}};
    const auto wanted = [&](Formula formula, Clip clip, std::uint64_t i) {
      const std::uint64_t n = one.how.channels, c = one.how.channel_of_row ? i / one.how.row % n : i % n;
      const float value = normalised(formula, static_cast<float>(x[i]),
                                     {numbers[c], numbers[n + c], numbers[2 * n + c], numbers[3 * n + c]});
      const bool clipped =
          clip != Clip::none && (value <= 0 || (clip == Clip::drops_nan && std::isnan(value)));
      return static_cast<T>(clipped ? 0 : value);
    };
    for (std::size_t f = 0; f < formulas; ++f) {
      call.formula = static_cast<Formula>(f);
      call.clip = static_cast<Clip>(f % 3);
      ASSERT_TRUE(device_->normalise(call, stream_));
      copy_out(most, most);
      std::uint64_t wrong = 0;
      for (std::uint64_t i = 0; i < elements; ++i) {
        const T right = wanted(call.formula, call.clip, i);
        const bool is_nan = std::isnan(static_cast<float>(right));
        wrong += is_nan ? (std::isnan(static_cast<float>(y[i])) ? 0 : 1) : bits(right) != bits(y[i]);
      }
      EXPECT_EQ(wrong, 0u) << name(call.formula) << ", " << name(call.clip);
    }
    // What NaN's bits are is the device's own affair, so there is none where bits are compared.
    x[elements / 2] = T{1};
    copy_in(0, most);
    call.clip = Clip::none;
    call.formula = Formula::centred_then_fma;
    ASSERT_TRUE(device_->normalise(call, stream_));
    copy_out(most, most);
    std::array<bool, formulas> others{};
    for (std::size_t f = 0; f < formulas; ++f) {
      for (std::uint64_t i = 0; i < elements && !others[f]; ++i) {
        others[f] = bits(wanted(static_cast<Formula>(f), Clip::none, i)) != bits(y[i]);
      }
    }
    const auto compared = [&] {
      differs[0] = {};
      // Page-locked memory, to which the device writes itself.
      EXPECT_TRUE(
          device_->compare(call, reinterpret_cast<std::uint32_t(*)[formulas]>(differs.data()), stream_));
      finish(stream_);
      std::array<bool, formulas> found{};
      for (std::size_t f = 0; f < formulas; ++f) found[f] = differs[0][f] != 0;
      return found;
    };
    EXPECT_FALSE(others[static_cast<std::size_t>(Formula::centred_then_fma)]);
    EXPECT_EQ(compared(), others);
    for (const std::uint64_t i : {std::uint64_t{0}, elements / 3, elements - 1}) {
      const T right = y[i];
      reinterpret_cast<unsigned char*>(&y[i])[0] ^= 1;
      copy_in(most, most);
      EXPECT_TRUE(compared()[static_cast<std::size_t>(Formula::centred_then_fma)]) << "element " << i;
      y[i] = right;
    }
  }

 private:
  std::byte* memory_ = nullptr;
  PhysicalHandle handle_{};
};

TEST_P(BatchNormBattery, NormalisesAndComparesToTheBit) {
  for (const BatchNormCase& one : batch_norm_cases) {
    SCOPED_TRACE(one.name);
    if (one.how.half) {
      check<_Float16>(one);
    } else {
      check<float>(one);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Libcuda, BatchNormBattery,
                         testing::Values(DeviceUnderTest{"libcuda", libcuda_device}),
                         [](const auto& under_test) { return std::string(under_test.param.name); });

}  // namespace
}  // namespace pooch::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto& driver = pooch::test::Driver::instance();
  const bool wants_silicon = argc > 1 && std::strcmp(argv[1], "silicon") == 0;
  if (!driver.failure().empty() || (wants_silicon && driver.software())) {
    std::cerr << "no GPU: " << (driver.failure().empty() ? "this is the software GPU" : driver.failure())
              << "\n";
    return wants_silicon ? 77 : 1;
  }
  return RUN_ALL_TESTS();
}
