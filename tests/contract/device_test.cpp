// The device battery over libcuda: the software GPU in the suite `contract`, silicon in the suite `gpu`,
// where exit code 77 says that there is none.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>

#include "interpose/real_device.h"
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
