// What a session tells its caller.
#pragma once

#include <cstdint>

#include "core/ids.h"

namespace pooch::runtime {

// docs/decisions/0021-what-memory-is-said-to-exist.md
struct MemoryInfo {
  // What the program is told. The total grows if use plus `free_bytes` exceeds the device's size.
  std::uint64_t free_bytes, total_bytes;
  std::uint64_t fits;     // bytes that still fit below the cap
  std::uint64_t granted;  // bytes that would still be served
};

// Where an allocation lies.
struct Extent {
  Address base;
  std::uint64_t bytes;  // as requested
};

// An allocation that stays on the device because a graph or a registration with NCCL names it.
struct Kept {
  Extent memory;
  AllocationId allocation;
};

// An allocation that has ended.
struct Freed {
  std::uint64_t bytes;
  bool by_program;
  void* origin;
  bool counts;  // against the cap by itself; false: a block of a slab that counts as a whole
};

// What submit() returns in place of launch's result where the call was not made: its API's status for "out of
// memory", and one for every other failure, which must not look as if less memory would help.
struct Refusal {
  constexpr Refusal(int out_of_memory_, int failed_) : out_of_memory(out_of_memory_), failed(failed_) {}
  constexpr Refusal(int any) : Refusal(any, any) {}  // NOLINT: implicit by design

  int out_of_memory;
  int failed;
};

}  // namespace pooch::runtime
