// The device battery over libcuda: the software GPU in the suite `contract`, silicon in the suite `gpu`,
// where exit code 77 says that there is none.
#include <cstdlib>
#include <cstring>
#include <iostream>

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
