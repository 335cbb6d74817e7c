// What one process did, written as summary.json at its end and shown by `pooch run`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace pooch {

// A kernel of which some launches may have touched any memory.
struct UnforeseenKernel {
  std::string name;
  std::uint64_t launches = 0;
  std::string why;                 // by its machine code; empty: its code was not read
  std::string short_name() const;  // for a line of text: names of templates can take thousands of letters
};

// All sizes are bytes, all peaks are of the whole run.
struct Summary {
  int schema = 1;
  std::string device;
  std::string policy;
  std::uint64_t cap_bytes = 0;
  std::uint64_t host_budget_bytes = 0;
  std::uint64_t peak_device_bytes = 0;      // handles plus passed-through allocations, measured
  std::uint64_t peak_host_bytes = 0;        // page-locked by pooch
  std::uint64_t need_bytes = 0;             // peak of requested bytes alive at once
  std::uint64_t need_managed_bytes = 0;     // the managed part of it, at that moment
  std::optional<std::uint64_t> iterations;  // unknown until the tracker counts them
  std::uint64_t ops = 0;                    // watched calls with operands in the program's allocations
  std::uint64_t planned_iterations = 0;   // of those, that followed a plan from their first op to their last
  std::uint64_t plans_left = 0;           // plans left at an op that they did not expect
  std::uint64_t replays = 0;              // calls replayed
  std::uint64_t substitutes = 0;          // of those, by substitutes (core/substitute.h)
  std::uint64_t aliased_iterations = 0;   // of planned_iterations, in alias mode from first op to last
  std::uint64_t any_size_iterations = 0;  // of planned_iterations, of any size, by a plan for the largest
  std::uint64_t moved_frames = 0;         // frames mapped for chunks that have other frames at other times
  std::uint64_t replans = 0;              // plans made again because times had changed
  std::uint64_t verified = 0;             // recomputed maps compared with what was dropped
  std::uint64_t mismatches = 0;           // of those, that differed
  std::uint64_t unplanned_evictions = 0;  // times that memory ran short while a plan was followed
  // Of the plan that most time went into, per iteration; empty: none was followed, or not long enough.
  // In-core: by the ops' own times.
  std::optional<double> predicted_ms, actual_ms, in_core_ms;
  std::optional<std::uint64_t> settled_after;  // iterations before the latest plan, or the first layout
  std::optional<std::uint64_t> predicted_peak_bytes, planned_peak_bytes;  // the latter measured
  // Allocations kept on the device: addresses in its memory point to them, or graphs or NCCL name them.
  std::uint64_t pinned_allocations = 0, pinned_bytes = 0;
  // Memory that pooch has no part in, of the whole process, in its first device's summary. Not charged when
  // allocated; what it takes of a device counts against the cap when the device is next asked. Bytes of
  // unified memory; arrays; memory handles exchanged with other processes; other devices that were let in.
  std::uint64_t unified_bytes = 0, arrays = 0, ipc_handles = 0, peer_accesses = 0;
  // Ops that may have touched memory no operand names, and chunks of evicted memory that were mapped for them
  // to their copy on the host.
  std::uint64_t unforeseen_ops = 0, landings = 0;
  // Of the whole process, in its first device's summary; the most frequent first.
  std::vector<UnforeseenKernel> unforeseen_kernels;
  std::uint64_t evictions = 0;         // chunks that left the device
  std::uint64_t bytes_out = 0;         // copied device to host
  std::uint64_t bytes_in = 0;          // copied host to device
  std::uint64_t vmm_calls = 0;         // map, set_access, unmap, create, destroy
  std::uint64_t handles_created = 0;   // of vmm_calls
  std::uint64_t host_allocations = 0;  // pieces of memory that were page-locked
  std::uint64_t host_waits = 0;        // times the host waited for the device on pooch's account
  std::uint64_t idle_waits = 0;        // of these, with no work of the program left on the device
};

std::string to_json(const Summary& summary);
// Error: invalid_argument with the path of the value that is missing or wrong.
Result<Summary> summary_from_json(const std::string& text);

}  // namespace pooch
