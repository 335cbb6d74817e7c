#include "runtime/memory/memory_limits.h"

#include <gtest/gtest.h>

#include "core/host_memory.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t device_bytes = 16 * GiB;

Config config(const char* cap, const char* host = nullptr) {
  Config made;
  if (cap != nullptr) made.memory_cap = SizeSetting{cap};
  if (host != nullptr) made.host_memory = SizeSetting{host};
  return made;
}
Limits settled(const Config& config, std::optional<std::uint64_t> free = {},
               std::uint64_t total = device_bytes) {
  const auto limits = settle_limits(config, {"a device", total, 2 * MiB, -1, true}, free);
  EXPECT_TRUE(limits) << limits.error().message;
  return *limits;
}
std::string refusal(const Config& config) {
  const auto limits = settle_limits(config, {"a device", device_bytes, 2 * MiB, -1, true});
  return limits ? "" : limits.error().message;
}

TEST(MemoryLimits, TheCapIsWhatIsSetInWholePages) {
  EXPECT_EQ(settled(config("1GiB")).cap, GiB);
  EXPECT_EQ(settled(config("25%")).cap, 4 * GiB);
  EXPECT_EQ(settled(config("5MiB")).cap, 4 * MiB);
  EXPECT_EQ(settled(config("1GiB")).device_bytes, GiB) << "the program is told of no more";
}

TEST(MemoryLimits, TheDefaultCapLeavesSomeToTheDriverAndToOthers) {
  EXPECT_EQ(settled(config(nullptr)).cap, device_bytes - 600 * MiB);
  EXPECT_EQ(settled(config(nullptr)).device_bytes, device_bytes);
  EXPECT_EQ(settled(config(nullptr), 8 * GiB).cap, 8 * GiB - device_slack(device_bytes - 600 * MiB));
  EXPECT_EQ(settled(config(nullptr), device_bytes).cap, device_bytes - 600 * MiB);
  EXPECT_EQ(settled(config(nullptr), MiB).cap, page) << "however little there is";
  EXPECT_EQ(settled(config(nullptr), {}, GiB).cap, GiB) << "a small device has none to leave";
}

TEST(MemoryLimits, ACapThatCannotBeIsRefusedWithWhatCan) {
  EXPECT_EQ(refusal(config("1MiB")),
            "POOCH_MEMORY_CAP: '1MiB' is too small: the smallest that works is 2.00 MiB");
  EXPECT_EQ(refusal(config("17GiB")),
            "POOCH_MEMORY_CAP: '17GiB' is more than the device has: accepted are up to 16.0 GiB");
  EXPECT_TRUE(refusal(config("lots")).starts_with("POOCH_MEMORY_CAP: 'lots'")) << refusal(config("lots"));
  EXPECT_TRUE(refusal(config("1GiB", "lots")).starts_with("POOCH_HOST_MEMORY: 'lots'"));
}

TEST(MemoryLimits, RanksOfANodeShareItsHostMemory) {
  Config shared = config("1GiB", "8GiB");
  EXPECT_EQ(settled(shared).host_budget, 8 * GiB);
  shared.local_rank = LocalRank{1, 4, 1};
  EXPECT_EQ(settled(shared).host_budget, 2 * GiB);
}

TEST(MemoryLimits, TheDefaultHostBudgetIsMostOfWhatIsAvailable) {
  const std::uint64_t before = available_host_memory();
  const std::uint64_t budget = settled(config("1GiB")).host_budget;
  EXPECT_GT(budget, before / 2) << "others may take some meanwhile";
  EXPECT_LT(budget, before);
  EXPECT_EQ(budget % page, 0u);
}

TEST(MemoryLimits, WhatIsNeverEvictedNeedsNoHostMemory) {
  Config keeps = config("1GiB", "8GiB");
  keeps.policy = Policy::keep;
  EXPECT_EQ(settled(keeps).host_budget, 0u);
  EXPECT_EQ(settled(keeps).granted(), GiB);
}

TEST(MemoryLimits, OneHandlesWorthOfHostMemoryIsNotGranted) {
  const Limits limits = settled(config("1GiB", "8GiB"));
  EXPECT_EQ(limits.granted(), 9 * GiB - largest_handle(GiB));
  EXPECT_EQ(limits.total(), GiB);
  EXPECT_EQ(limits.largest(), GiB);
  EXPECT_EQ(limits.least_free(), 64 * MiB);
  Config all = config("1GiB", "8GiB");
  all.memory_info = MemoryStory::all;
  EXPECT_EQ(settled(all).total(), limits.granted());
  EXPECT_EQ(settled(all).largest(), limits.granted());
}

TEST(MemoryLimits, APassedThroughAllocationIsChargedAsTheDriverPacksIt) {
  EXPECT_EQ(pass_through_charge(1), 512u);
  EXPECT_EQ(pass_through_charge(MiB - 1), MiB);
  EXPECT_EQ(pass_through_charge(MiB), page);
  EXPECT_EQ(pass_through_charge(page + 1), 2 * page);
}

}  // namespace
}  // namespace pooch::runtime
