// Waiting for the device without keeping other threads out.
#pragma once

#include <mutex>

#include "core/device.h"
#include "runtime/stream_order.h"

namespace pooch::runtime {

// The host waits until the device has got beyond all marks. `lock` is released meanwhile, so everything that
// it guards may have changed; not at all where the marks are known to be finished.
Status await(Device& device, StreamOrder& order, const Marks& marks, std::unique_lock<std::mutex>& lock);

}  // namespace pooch::runtime
