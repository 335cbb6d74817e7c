// The host's time to move memory: unmapping handles, mapping them elsewhere, and allowing access, by how many
// handles one call of unmap and set_access covers. And the delay from the host's decision to launch to the
// device's start.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"

namespace pooch::cupti {

struct MoveSample {
  std::uint32_t handles;  // per unmap and set_access call; each has a map call of its own
  double microseconds;    // of all these calls, the median of three
};
struct MappingPrices {
  std::vector<MoveSample> moves;
  double launch_us = 0;
};

// Maps 1, 2, 4, … of `handles`, of `bytes` each and mapped nowhere else, at addresses of its own, and times
// that by events in `stream`, which has no work. Waits for that stream. Errors: the device's; `still_mapped`
// is set where it refused to unmap handles that are mapped there now.
Result<MappingPrices> probe_mapping(Device& device, StreamHandle stream,
                                    std::span<const PhysicalHandle> handles, std::uint64_t bytes,
                                    bool& still_mapped);

}  // namespace pooch::cupti
