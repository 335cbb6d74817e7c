// When bytes have crossed the links of the software GPU: alone, beside the other direction, beside other
// devices.
#include "softgpu/driver/model/links.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace softgpu {
namespace {

constexpr std::uint64_t second_of_bytes = 10'000'000'000;  // at the rate of `plain`
constexpr Nanoseconds second = 1'000'000'000;
constexpr Engine in = Engine::to_device, out = Engine::to_host;

Model plain(double both_ways) {
  Model model;
  model.to_device = model.to_host = 10e9;
  model.both_ways = both_ways;
  return model;
}

Model behind_a_switch(int devices) {
  Model model = plain(1);
  model.devices_per_switch = devices;
  model.switch_uplink = 10e9;
  return model;
}

double seconds(Nanoseconds time) {
  return static_cast<double>(time) / static_cast<double>(second);
}

TEST(Links, ACopyAloneTakesItsTimeToTheNanosecond) {
  const Model model = plain(0.8);
  Links links(model);
  EXPECT_EQ(links.carry(0, in, in, 5, 1234567, 12345), 5 + 1234567);
  EXPECT_EQ(links.carry(0, in, in, 5 + 1234567, 77, 1), 5 + 1234567 + 77);
  EXPECT_EQ(links.carry(0, out, out, 3 * second, 1234567, 12345), 3 * second + 1234567);
}

TEST(Links, TheLaterOfTwoDirectionsBearsWhatBothLose) {
  const Model model = plain(0.8);
  Links links(model);
  EXPECT_EQ(links.carry(0, in, in, 0, second, second_of_bytes), second);
  // 0.6 of its rate while the other runs, then all of it: 1 + 0.4 seconds.
  EXPECT_NEAR(seconds(links.carry(0, out, out, 0, second, second_of_bytes)), 1.4, 1e-6);
  // Behind both it is alone again.
  EXPECT_EQ(links.carry(0, in, in, 2 * second, second, second_of_bytes), 3 * second);
}

TEST(Links, WhatIsBookedLaterAndBeginsEarlierIsAloneUntilTheyMeet) {
  const Model model = plain(0.8);
  Links links(model);
  links.carry(0, in, in, second, second, second_of_bytes);
  // 1 second alone; of the other second's work 0.6 beside the other, the rest behind it.
  EXPECT_NEAR(seconds(links.carry(0, out, out, 0, 2 * second, 2 * second_of_bytes)), 2.4, 1e-6);
}

TEST(Links, TwoThatAreSlowerTogetherThanOneByOneTakeAsLongAsTwoThatShare) {
  const Model model = plain(0.47);
  Links links(model);
  links.carry(0, in, in, 0, second, second_of_bytes);
  EXPECT_NEAR(seconds(links.carry(0, out, out, 0, second, second_of_bytes)), 1 / 0.47, 1e-6);
}

TEST(Links, DevicesBehindOneSwitchShareItsUplink) {
  const Model model = behind_a_switch(2);
  Links links(model);
  EXPECT_EQ(links.carry(0, in, in, 0, second, second_of_bytes), second);
  EXPECT_NEAR(seconds(links.carry(1, in, in, 0, second, second_of_bytes)), 2, 1e-6) << "waits for the uplink";
  EXPECT_EQ(links.carry(2, in, in, 0, second, second_of_bytes), second) << "behind the next switch";
}

TEST(Links, AllDevicesOfANodeShareTheHostsMemory) {
  Model model = plain(1);
  model.host_memory = 25e9;
  Links links(model);
  EXPECT_EQ(links.carry(0, in, in, 0, second, second_of_bytes), second);
  EXPECT_EQ(links.carry(0, out, out, 0, second, second_of_bytes), second);
  EXPECT_NEAR(seconds(links.carry(1, in, in, 0, second, second_of_bytes)), 1.5, 1e-6)
      << "half its rate is left";
}

TEST(Links, WhatIsForgottenDisturbsNobody) {
  const Model model = plain(0.8);
  Links links(model);
  links.carry(0, in, in, 0, second, second_of_bytes);
  links.carry(0, in, in, second, second, second_of_bytes);
  links.forget_before(second);
  EXPECT_EQ(links.booked().size(), 1U);
  EXPECT_NEAR(seconds(links.carry(0, out, out, second, second, second_of_bytes)), 2.4, 1e-6);
}

// In every moment between two changes of what is booked.
void expect_within_limits(const Model& model, const std::vector<Links::Crossing>& booked) {
  for (const Links::Crossing& moment : booked) {
    double memory = 0;
    std::map<int, double> shares, uplinks;
    for (const Links::Crossing& each : booked) {
      if (each.begin > moment.begin || each.end <= moment.begin) continue;
      memory += each.rate;
      shares[each.device] += each.rate / 10e9;
      uplinks[each.device / model.devices_per_switch * 2 + (each.way == in ? 0 : 1)] += each.rate;
    }
    EXPECT_LE(memory, model.host_memory * 1.000001);
    for (const auto& [device, share] : shares) EXPECT_LE(share, 2 * model.both_ways * 1.000001) << device;
    for (const auto& [uplink, rate] : uplinks) EXPECT_LE(rate, model.switch_uplink * 1.000001) << uplink;
  }
}

TEST(Links, NoMomentHasMoreThanTheLimitsAndAllBytesCross) {
  Model model = behind_a_switch(2);
  model.both_ways = 0.72;
  model.host_memory = 28e9;
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random(seed);
    const auto up_to = [&](Nanoseconds most) { return static_cast<Nanoseconds>(random() % (most + 1)); };
    Links links(model);
    std::map<std::pair<int, Engine>, Nanoseconds> free;  // by device and engine
    double asked = 0;
    for (int i = 0; i < 60; ++i) {
      const int device = static_cast<int>(up_to(3));
      const Engine way = up_to(1) == 0 ? in : out, by = up_to(3) == 0 ? Engine::compute : way;
      const auto bytes = static_cast<std::uint64_t>(1 + up_to(second_of_bytes));
      const Nanoseconds start = free[{device, by}] + up_to(second / 2),
                        alone = bytes / 10 + up_to(second / 5) + 1;
      const Nanoseconds end = links.carry(device, by, way, start, alone, bytes);
      EXPECT_GE(end, start + alone);
      free[{device, by}] = end;
      asked += static_cast<double>(bytes);
    }
    expect_within_limits(model, links.booked());
    double crossed = 0;
    for (const Links::Crossing& each : links.booked()) crossed += each.rate * seconds(each.end - each.begin);
    EXPECT_NEAR(crossed / asked, 1, 1e-5) << "seed " << seed;
  }
}

}  // namespace
}  // namespace softgpu
