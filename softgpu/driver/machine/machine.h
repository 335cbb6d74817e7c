// The devices of this process and everything they hold. Made by the first cuInit and never destroyed:
// programs call into drivers from their last destructors.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "softgpu/driver/checks/checker.h"
#include "softgpu/driver/checks/host_guard.h"
#include "softgpu/driver/code/modules.h"
#include "softgpu/driver/machine/call_paths.h"
#include "softgpu/driver/machine/failure.h"
#include "softgpu/driver/memory/memory.h"
#include "softgpu/driver/memory/overheads.h"
#include "softgpu/driver/model/cost.h"
#include "softgpu/driver/order/capture.h"
#include "softgpu/driver/order/scheduler.h"
#include "softgpu/driver/space/address.h"
#include "softgpu/driver/space/host_memory.h"
#include "softgpu/driver/terms/context.h"

namespace softgpu {

struct Machine {
  Machine(const Choice& choice, std::optional<std::uint64_t> seed);

  const Model& model() const { return choice.model; }
  bool compute() const { return !choice.options.timing; }
  // The stream that a handle names; null where it names none. `per_thread`: what 0 means.
  StreamPtr stream(CUstream handle, bool per_thread, Context* context);
  Context* create_context(int device, unsigned flags, bool primary);
  bool has(CUdevice device) const { return device >= 0 && device < choice.options.devices; }
  // Waits for its work and frees what it holds.
  void destroy_context(Lock& lock, Context* context, const char* name, std::uint64_t call);
  // From here on every call fails that fails after a violation; what was submitted does not run.
  void break_down(Lock& lock);

  Choice choice;
  Cost cost;
  Violations violations;
  Statistics statistics;
  AddressMap addresses;
  HostMemory host;
  HostGuard guard;
  PhysicalMemory physical;
  PhysicalMemory host_handles;           // host memory that handles are made of
  std::optional<Provenance> provenance;  // of content; none where the device computes
  Checker checker;
  Scheduler scheduler;
  Overheads overheads;
  Memory memory;
  Modules modules;

  std::map<CUstream, StreamPtr> streams;  // created by the program
  std::unordered_map<CUevent, std::unique_ptr<Event>> events;
  Captures captures;
  Graphs graphs;
  std::map<Context*, std::unique_ptr<Context>> contexts;  // dead ones too: handles are never reused
  struct Primary {
    Context* context = nullptr;
    unsigned flags = 0;
  };
  std::vector<Primary> primaries;  // by device
  // Values of wait-values and write-values: in timing mode device memory holds none, and they order streams.
  struct Cell {
    std::uint64_t value = 0;
    VectorClock clock;
    Nanoseconds time = 0;
  };
  std::map<std::uint64_t, Cell> cells;
  Failure failure;
  CallPaths call_paths;
  bool exited = false;  // past the report
};

// Null before cuInit succeeded, and in a forked child.
Machine* machine();
// Makes it. Prints one line where SOFTGPU_DEVICE cannot be understood.
CUresult start_machine();
std::string report_json(const Machine& machine);

// The calling thread's stack of contexts.
std::vector<Context*>& context_stack();

}  // namespace softgpu
