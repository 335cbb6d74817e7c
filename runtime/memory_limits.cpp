#include "runtime/memory_limits.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/bytes.h"

namespace pooch::runtime {
namespace {

// Left to the driver and to others when the user names no cap.
constexpr std::uint64_t default_reserve = 600 * MiB;
constexpr double default_host_share = 0.8;

Error refuse(const char* variable, const SizeSetting& setting, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("{}: '{}' {}", variable, setting.text, why)};
}

Result<std::uint64_t> settle_cap(const Config& config, std::uint64_t total) {
  if (!config.memory_cap) return total > 2 * default_reserve ? total - default_reserve : total;
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

Result<Limits> settle_limits(const Config& config, const DeviceInfo& device) {
  const auto cap = settle_cap(config, device.total_bytes);
  if (!cap) return cap.error();
  Limits limits{*cap / page * page, 0};
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
