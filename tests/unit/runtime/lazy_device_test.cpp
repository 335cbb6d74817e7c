// The double of the unit tests keeps the same promises as the devices it stands for.
#include "tests/support/lazy_device.h"
#include "tests/support/device_battery.h"

namespace pooch::test {
INSTANTIATE_TEST_SUITE_P(Lazy, DeviceBattery,
                         testing::Values(DeviceUnderTest{"lazy",
                                                         []() -> Device* {
                                                           static LazyDevice device(512 * MiB);
                                                           return &device;
                                                         }}),
                         [](const auto& under_test) { return std::string(under_test.param.name); });
}  // namespace pooch::test
