// How fast copies go: a few sizes in each direction, alone and both at once.
#pragma once

#include <cstdint>
#include <vector>

#include "core/device.h"

namespace pooch::cupti {

struct LinkSample {
  enum class Direction : std::uint8_t { out, in };  // device to host, host to device
  Direction direction;
  bool both;  // while a copy of the same size went the other way
  std::uint64_t bytes;
  double microseconds;  // the median of three
};

// What the probe may overwrite: `bytes` of device memory and as many of page-locked host memory.
struct ProbeMemory {
  Address device;
  std::byte* host;
  std::uint64_t bytes;
};

// Copies 64 KiB, 1 MiB, 16 MiB and 64 MiB, as far as the memory reaches (twice for both at once: each
// direction has half of it, and is submitted first once), with events around each copy. Waits for its own
// copies and for whatever was in the two streams. Errors: invalid_argument (one stream for both, less than 64
// KiB), and the device's.
Result<std::vector<LinkSample>> probe_link(Device& device, StreamHandle out, StreamHandle in,
                                           const ProbeMemory& memory);

}  // namespace pooch::cupti
