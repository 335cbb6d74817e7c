// The host's heap, where it gives no memory: what libpooch allocates then comes from a small reserve of its
// own, so that no allocation throws in the middle of a change. Once half of the reserve is taken every call
// of the program's that would need more is refused, out of memory; the rest is for calls on their way and for
// the end.
#pragma once

#include <atomic>

namespace pooch {

inline constinit std::atomic<bool> host_heap_spent_flag{false};

inline bool host_heap_spent() {
  return host_heap_spent_flag.load(std::memory_order_relaxed);
}

}  // namespace pooch
