// Fallback when the host's heap is exhausted: libpooch then allocates from a small reserve (64 MiB), so that
// no allocation throws in the middle of a change. Once 512 KiB of it are taken, every call of the program
// that would need more is refused as out of memory; the rest is for calls in progress and for the exit.
#pragma once

#include <atomic>

namespace pooch {

inline constinit std::atomic<bool> host_heap_spent_flag{false};

// True in a thread that the program does not wait for. Such a thread cannot use the reserve: its allocations
// throw when the heap is exhausted.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local bool without_heap_reserve = false;

inline bool host_heap_spent() {
  return host_heap_spent_flag.load(std::memory_order_relaxed);
}

}  // namespace pooch
