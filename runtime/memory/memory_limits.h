// How much device and host memory pooch may use, settled once when the session opens.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/config.h"
#include "core/device.h"
#include "core/pages.h"
#include "core/result.h"

namespace pooch::runtime {

// What a passed-through allocation takes of the device: the driver gives a page of its own from 1 MiB on, and
// packs smaller ones at 512 bytes.
constexpr std::uint64_t pass_through_charge(std::uint64_t bytes) {
  return bytes >= MiB ? round_up(bytes, page) : round_up(bytes, 512);
}

// What stays free of a device that was seen to be full: drivers load code when it is first launched, and
// kernels' local memory and the tables of mappings take device memory that nobody asks for.
constexpr std::uint64_t device_slack(std::uint64_t cap) {
  return std::clamp(cap / 64 / page * page, page, 512 * MiB);
}

struct Limits {
  std::uint64_t cap;          // device bytes: handles and passed-through allocations together
  std::uint64_t host_budget;  // page-locked host bytes; 0 where the policy evicts nothing

  // The device size that the program is told: the cap, or the whole device if no cap is set.
  std::uint64_t device_bytes = cap;
  MemoryStory story = MemoryStory::device;

  // What the program may allocate. With both sides full nothing could change places, so one handle's worth of
  // host memory stays out of it.
  std::uint64_t granted() const { return cap + host_budget - std::min(host_budget, largest_handle(cap)); }
  // The device size that it is told.
  std::uint64_t total() const { return story == MemoryStory::all ? granted() : device_bytes; }
  // The largest allocation: operands of one call that exceed the cap are never resident together.
  std::uint64_t largest() const { return story == MemoryStory::all ? granted() : cap; }
  // Reported as free once more than the cap is in use: room for a call's workspace, as on a well-filled
  // device.
  std::uint64_t least_free() const { return cap / 16; }
};

// `free_bytes`: what the device has, where that is known already; the default cap is no more than that.
// Errors: invalid_argument with the line to print (variable, value, what is accepted).
Result<Limits> settle_limits(const Config& config, const DeviceInfo& device,
                             std::optional<std::uint64_t> free_bytes = std::nullopt);

}  // namespace pooch::runtime
