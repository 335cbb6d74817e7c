// Whether handles of host memory work. A driver may report them and crash when asked for one (NVIDIA/nccl
// issues 2106 and 2190). So another process, the `pooch` that came with the library, asks for one and reports
// the result. Whether they work or the driver crashes is kept in the cache folder, for this device and this
// driver file.
#pragma once

#include <string>

#include "core/cache_folder.h"
#include "core/device.h"
#include "core/result.h"

namespace pooch::runtime {

struct HostHandleTrial {
  unsigned seconds = 20;            // that it may take
  std::string library_folder = {};  // where `libpooch.so` lies; empty: where this code is
};

// Waits for the other process, unless the answer is known. Error: invalid_argument, why they are not to be
// used, in one line.
Status try_host_handles(const DeviceInfo& device, const CacheFolder& cache,
                        const HostHandleTrial& trial = {});

}  // namespace pooch::runtime
