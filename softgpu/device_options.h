// The options of SOFTGPU_DEVICE, which `pooch --device` passes on. Standard C++ alone: read by the software
// GPU and by the tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace softgpu {

enum class HostHandles {
  on,       // cuMemCreate serves HOST_NUMA, and attribute 141 says so
  off,      // neither
  refused,  // the attribute says so, cuMemCreate refuses
  crash,    // the attribute says so, cuMemCreate ends in a segmentation fault
  // The attribute says so, cuMemCreate takes the device's memory, and the handle's properties tell that.
  misreported,
};

struct DeviceOptions {
  bool timing = false;                      // no numerics, no memory
  std::optional<std::uint64_t> memory;      // bytes that allocations may take; none: the model's
  int devices = 1;                          // 1 to 8, alike
  std::optional<HostHandles> host_handles;  // none: the model's
  // Mapping calls cost this many times the model's price.
  double vmm = 1;
  bool vmm_per_call = false;  // and as much as for one handle, however many there are in the call
  bool vmm_sync = false;      // cuMemSetAccess and cuMemUnmap wait for the device
  bool links_alone = false;   // a copy has its link to itself, whatever else crosses
  bool high_addresses = false;
  bool queries_of_both = false;  // queries of kernels and of functions answer for the other kind as well
  bool no_overheads = false;     // the driver takes no memory for itself but for the context
  // Works last longer or shorter by so many percent (one standard deviation), drawn by the seed.
  double noise_percent = 0;
  std::uint64_t noise_seed = 0;
};

// What one option may be, for messages.
extern const std::string_view accepted_options;

// Reads one option ("timing", "memory=16GiB") over what `options` says. False: it is none.
bool read_option(std::string_view option, DeviceOptions& options);
// All that differ from the default, each behind a colon: ":timing:memory=1073741824".
std::string to_string(const DeviceOptions& options);

}  // namespace softgpu
