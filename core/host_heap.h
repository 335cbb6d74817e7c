// The host's heap, where it gives no memory: what libpooch allocates then comes from a small reserve of its
// own, so that no allocation throws in the middle of a change. Once half of the reserve is taken every call
// of the program's that would need more is refused, out of memory; the rest is for calls on their way and for
// the end.
#pragma once

#include <atomic>

namespace pooch {

inline constinit std::atomic<bool> host_heap_spent_flag{false};

// True in a thread that the program does not wait for. The reserve is not for such a thread: where the heap
// gives no memory, its allocations throw.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local bool without_heap_reserve = false;

inline bool host_heap_spent() {
  return host_heap_spent_flag.load(std::memory_order_relaxed);
}

}  // namespace pooch
