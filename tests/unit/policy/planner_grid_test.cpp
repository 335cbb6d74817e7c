// What every plan promises, over networks, batches and machines. Too long for sanitizers.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "policy/planner.h"
#include "tests/support/network_profile.h"

namespace pooch::policy {
namespace {

std::uint64_t usable(const test::Machine& machine) {
  return machine.memory_bytes - (std::uint64_t{600} << 20);
}

struct Network {
  const char* name;
  Profile (*profile)(const test::Machine& machine, int batch);
  int batches[2];
};
const Network networks[] = {
    {"resnet50",
     [](const test::Machine& m, int batch) { return test::resnet50_profile(m, batch); },
     {384, 768}},
    {"vgg16", [](const test::Machine& m, int batch) { return test::vgg16_profile(m, batch); }, {192, 320}},
    {"alexnet",
     [](const test::Machine& m, int batch) { return test::alexnet_profile(m, batch); },
     {2688, 5120}},
    {"googlenet",
     [](const test::Machine& m, int batch) { return test::googlenet_profile(m, batch); },
     {640, 1280}},
    {"resnet152",
     [](const test::Machine& m, int batch) {
       return test::resnet_profile(m, batch, {3, 8, 36, 3});
     },
     {160, 320}},
};

class Grid : public ::testing::TestWithParam<Network> {};
INSTANTIATE_TEST_SUITE_P(Networks, Grid, ::testing::ValuesIn(networks),
                         [](const auto& network) { return std::string(network.param.name); });

TEST_P(Grid, NoPolicyIsBetterThanHybridAndNoneTakesMoreThanItsMemory) {
  int compared = 0;
  for (const test::Machine& machine : {test::v100_pcie3(), test::v100_nvlink2(), test::titanx()}) {
    for (const int batch : GetParam().batches) {
      SCOPED_TRACE(machine.name + " " + std::to_string(batch));
      const Profile profile = GetParam().profile(machine, batch);
      PlanRequest request;
      request.memory = usable(machine);
      const Result<Plan> ours = make_plan(profile, "", "hybrid", request);
      if (ours) {
        EXPECT_LE(*ours->bound_ms, ours->predicted_ms + 1e-6);
      }
      request.bound = false;
      for (const PolicyInfo& info : policies()) {
        const Result<Plan> theirs = info.name == "hybrid" ? ours : make_plan(profile, "", info.name, request);
        if (!theirs) {
          EXPECT_EQ(theirs.error().code, ErrorCode::out_of_memory) << theirs.error().message;
          continue;
        }
        EXPECT_LE(theirs->peak, request.memory) << info.name;
        ASSERT_TRUE(ours) << info.name << " fits, and hybrid does not: " << ours.error().message;
        EXPECT_LE(ours->predicted_ms, theirs->predicted_ms + 1e-6) << info.name;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 20);
}

TEST_P(Grid, MoreMemoryOrAFasterLinkIsNotWorse) {
  const test::Machine machine = test::v100_pcie3();
  const Profile profile = GetParam().profile(machine, GetParam().batches[0]);
  const auto planned = [&](double memory, double link) {
    PlanRequest request;
    request.memory = static_cast<std::uint64_t>(memory * static_cast<double>(usable(machine)));
    request.link_in = request.link_out = link;
    request.bound = false;
    const Result<Plan> plan = make_plan(profile, "", "hybrid", request);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? plan->predicted_ms : 0;
  };
  const double ms = planned(0.8, 12e9);
  EXPECT_LE(planned(0.9, 12e9), 1.02 * ms);
  EXPECT_LE(planned(0.8, 24e9), 1.02 * ms);
}

}  // namespace
}  // namespace pooch::policy
