// What `pooch fit` says of a program from its profile.
#include "fit.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "core/pages.h"
#include "tests/support/network_profile.h"
#include "tests/support/random_profile.h"

namespace pooch::tools {
namespace {

Profile chain() {
  Profile profile = test::chain_profile(test::v100_pcie3(), 64, 12);
  profile.need_bytes = 800 * MiB;
  profile.device_bytes = profile.cap_bytes = 500 * MiB;
  profile.outside_bytes = 100 * MiB;
  profile.host_budget_bytes = 64 * GiB;
  test::add_places(profile);
  return profile;
}

Result<Fit> fitted(const Profile& profile, std::vector<std::uint64_t> caps = {}) {
  return fit(profile, std::move(caps), "superneurons", [](std::size_t, std::size_t) {});
}

TEST(Fit, LessMemoryTakesLonger) {
  const auto found = fitted(chain());
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_GT(found->rows.size(), 3U);
  EXPECT_EQ(found->rows.front().cap, found->in_core);
  EXPECT_DOUBLE_EQ(found->rows.front().ms, found->rows.front().in_core_ms);
  EXPECT_EQ(found->rows.back().cap, found->smallest);
  EXPECT_GT(found->rows.back().ms, 1.05 * found->rows.front().ms);
  for (std::size_t i = 1; i < found->rows.size(); ++i) {
    EXPECT_LT(found->rows[i].cap, found->rows[i - 1].cap);
    EXPECT_GT(found->rows[i].ms, 0.98 * found->rows[i - 1].ms);
  }
  EXPECT_FALSE(found->fits);
  EXPECT_EQ(std::count_if(found->rows.begin(), found->rows.end(),
                          [](const FitRow& row) { return row.cap == chain().cap_bytes; }),
            1);
}

TEST(Fit, ACapIsTheLeastThatLeavesWhatAPlanMayUse) {
  const Profile profile = chain();
  for (const std::uint64_t memory : {100 * MiB, 1 * GiB, 40 * GiB}) {
    const std::uint64_t cap = cap_for_memory(memory, profile, profile.phases[0]);
    EXPECT_GE(memory_for_plan(cap, profile, profile.phases[0]), memory);
    EXPECT_LT(memory_for_plan(cap - 2 * page, profile, profile.phases[0]), memory);
  }
}

TEST(Fit, ShowsTheCapsThatAreAskedFor) {
  const Profile profile = chain();
  const std::uint64_t cap = 600 * MiB;
  const auto found = fitted(profile, {cap});
  ASSERT_TRUE(found);
  std::vector<std::uint64_t> caps;
  for (const FitRow& row : found->rows) caps.push_back(row.cap);
  EXPECT_EQ(caps, (std::vector{found->in_core, cap, profile.cap_bytes, found->smallest}));
}

TEST(Fit, WhatWasNotMeasuredIsNotGuessed) {
  Profile profile = chain();
  profile.link.clear();
  EXPECT_NE(fitted(profile).error().message.find("the link"), std::string::npos);
  profile.phases[0].measured = 0;
  EXPECT_NE(fitted(profile).error().message.find("no iteration was timed"), std::string::npos);
}

Fit told(std::uint64_t smallest, std::uint64_t in_core, std::uint64_t cap) {
  Fit fit{true, cap >= in_core, smallest, in_core, {}};
  fit.rows = {{in_core, 100, 100, 0}, {cap, 109, 100, 8 * GiB}, {smallest, 180, 100, 12 * GiB}};
  return fit;
}
Profile of_device(std::uint64_t cap) {
  Profile profile;
  profile.device = "a GPU", profile.need_bytes = 50 * GiB;
  profile.device_bytes = cap + GiB, profile.cap_bytes = cap, profile.host_budget_bytes = 10 * GiB;
  return profile;
}

TEST(Fit, ItsTextSaysWhatToDo) {
  EXPECT_EQ(fit_text(told(6 * GiB, 51 * GiB, 16 * GiB), of_device(16 * GiB), "-- python train.py"),
            "50.0 GiB is needed; a GPU has 17.0 GiB, of which 16.0 GiB may be used\n"
            "\n"
            "device memory  iteration  over in-core  host memory\n"
            "     51.0 GiB   100.0 ms        +0.0 %          0 B  everything stays; a larger GPU\n"
            "     16.0 GiB   109.0 ms        +9.0 %     8.00 GiB  this device\n"
            "     6.00 GiB   180.0 ms       +80.0 %     12.0 GiB  the smallest with a plan; the host may "
            "give 10.0 GiB\n"
            "\n"
            "It does not fit here, and runs with pooch: +9.0 % over in-core, as predicted.\n"
            "  pooch run -- python train.py\n");
  const auto advice = [](std::uint64_t cap) {
    return fit_text(told(6 * GiB, 51 * GiB, cap), of_device(cap), "-- python train.py");
  };
  EXPECT_NE(advice(60 * GiB).find("It fits as it is"), std::string::npos);
  EXPECT_NE(advice(4 * GiB).find("It has no good plan on this device: with less than 6.00 GiB"),
            std::string::npos);
}

}  // namespace
}  // namespace pooch::tools
