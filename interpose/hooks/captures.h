// How many streams are being captured into graphs. Below everything that asks, because the device's port
// does.
#pragma once

#include <atomic>
#include <cstddef>

namespace pooch::interpose {

inline constinit std::atomic<std::size_t> captures{0};
inline bool any_capture() {
  return captures.load(std::memory_order_relaxed) != 0;
}

}  // namespace pooch::interpose
