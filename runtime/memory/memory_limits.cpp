#include "runtime/memory/memory_limits.h"

#include <fmt/core.h>

#include <algorithm>

#include "core/bytes.h"
#include "core/host_memory.h"

namespace pooch::runtime {
namespace {

// Left to the driver and to others when the user names no cap.
constexpr std::uint64_t default_reserve = 600 * MiB;
constexpr double default_host_share = 0.8;

Error refuse(const char* variable, const SizeSetting& setting, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: '{}' {}", variable, setting.text, why)};
}

// What others hold is not to be had, and some of the rest is the driver's.
std::uint64_t default_cap(std::uint64_t total, std::optional<std::uint64_t> free) {
  const std::uint64_t cap = total > 2 * default_reserve ? total - default_reserve : total;
  if (!free) return cap;
  const std::uint64_t spare = device_slack(cap);
  return std::clamp(*free > spare ? *free - spare : 0, page, cap);
}

Result<std::uint64_t> settle_cap(const Config& config, std::uint64_t total,
                                 std::optional<std::uint64_t> free) {
  if (!config.memory_cap) return default_cap(total, free);
  const auto cap = config.memory_cap->resolve(total);
  if (!cap) return Error{cap.error().code, "POOCH_MEMORY_CAP: " + cap.error().message};
  if (*cap < page)
    return refuse("POOCH_MEMORY_CAP", *config.memory_cap,
                  fmt::format("is too small: the smallest that works is {}", format_bytes(page)));
  if (*cap > total)
    return refuse("POOCH_MEMORY_CAP", *config.memory_cap,
                  fmt::format("is more than the device has: accepted are up to {}", format_bytes(total)));
  return *cap;
}

}  // namespace

Result<Limits> settle_limits(const Config& config, const DeviceInfo& device,
                             std::optional<std::uint64_t> free_bytes) {
  const auto cap = settle_cap(config, device.total_bytes, free_bytes);
  if (!cap) return cap.error();
  Limits limits{*cap / page * page, 0};
  if (!config.memory_cap) limits.device_bytes = device.total_bytes;
  limits.story = config.memory_info;
  if (config.policy == Policy::keep) return limits;
  // The node's memory and what the user grants of it are for all of its ranks together.
  const std::uint64_t ranks = config.local_rank ? config.local_rank->count : 1;
  const std::uint64_t available = available_host_memory();
  limits.host_budget = static_cast<std::uint64_t>(static_cast<double>(available) * default_host_share);
  if (config.host_memory) {
    const auto budget = config.host_memory->resolve(available);
    if (!budget) return Error{budget.error().code, "POOCH_HOST_MEMORY: " + budget.error().message};
    limits.host_budget = *budget;
  }
  limits.host_budget = limits.host_budget / ranks / page * page;
  return limits;
}

}  // namespace pooch::runtime
