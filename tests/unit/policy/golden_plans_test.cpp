// Plans as they were when last looked at: tests/golden/*.json. A change that is wanted is written by
//   golden_plans_test tests/golden --write
// and read in the diff before it is committed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "policy/planner.h"
#include "tests/support/network_profile.h"

namespace pooch::policy {
namespace {

std::filesystem::path folder;
bool writes = false;

struct Case {
  const char* name;
  Profile profile;
  std::uint64_t memory;
};
std::vector<Case> cases() {
  constexpr std::uint64_t gib = std::uint64_t{1} << 30;
  const test::Machine pcie = test::v100_pcie3();
  return {{"residual", test::resnet_profile(pcie, 256, {1, 1, 1, 1}), 6 * gib},
          {"vgg16", test::vgg16_profile(test::titanx(), 128), 7 * gib},
          {"chain", test::chain_profile(pcie, 64, 24), gib * 5 / 8}};
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
// Where they differ first: a whole plan says too little.
std::string first_difference(const std::string& was, const std::string& is) {
  const auto [a, b] = std::mismatch(was.begin(), was.end(), is.begin(), is.end());
  const auto line = std::count(was.begin(), a, '\n') + 1;
  const auto rest = [](const std::string& text, std::string::const_iterator at) {
    return std::string(at, std::find(at, text.end(), '\n'));
  };
  return "line " + std::to_string(line) + ": was …" + rest(was, a) + ", is …" + rest(is, b);
}

TEST(GoldenPlans, AreAsTheyWere) {
  for (const Case& each : cases()) {
    for (const char* policy : {"hybrid", "pooch", "superneurons", "vdnn-dyn", "swap-opt"}) {
      PlanRequest request;
      request.memory = each.memory;
      const Result<Plan> plan = make_plan(each.profile, "", policy, request);
      // That a policy does not fit is worth keeping too.
      const std::string is = plan ? to_json(*plan) : plan.error().message + "\n";
      const std::filesystem::path path = folder / (std::string(each.name) + "-" + policy + ".json");
      if (writes) {
        std::ofstream(path, std::ios::binary) << is;
        continue;
      }
      if (!std::filesystem::exists(path)) {
        ADD_FAILURE() << path << " is missing: a new plan?";
        continue;
      }
      const std::string was = read(path);
      EXPECT_TRUE(was == is) << path.filename() << ": " << first_difference(was, is);
    }
  }
}

}  // namespace
}  // namespace pooch::policy

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc < 2) {
    std::fputs("usage: golden_plans_test FOLDER [--write]\n", stderr);
    return 2;
  }
  pooch::policy::folder = argv[1];
  pooch::policy::writes = argc > 2 && std::string(argv[2]) == "--write";
  return RUN_ALL_TESTS();
}
