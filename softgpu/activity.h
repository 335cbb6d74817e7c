// How libcupti hears of what the driver does: a table that cuGetExportTable gives for `activity_table_id`, as
// the vendor's libraries reach their driver. While nobody listens nothing is noted and nothing costs time.
//
// Times are virtual nanoseconds. A correlation is the number of the API call, whatever belongs to the call
// has the same: the number of the runtime's call where the runtime calls the driver, whose own calls are not
// noted then, as on silicon.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>

namespace softgpu {

inline constexpr CUuuid activity_table_id = {
    {'s', 'o', 'f', 't', 'g', 'p', 'u', ' ', 'a', 'c', 't', 'i', 'v', 'i', 't', 'y'}};

enum ActivityKinds : unsigned {
  activity_kernels = 1,
  activity_copies = 2,
  activity_sets = 4,
  activity_calls = 8,
};

// One API call, at its return, in the thread that made it.
struct CallActivity {
  const char* name;  // the exported symbol, static; null: the runtime's
  std::uint32_t correlation;
  std::int64_t start, end;
  CUresult refused;  // why it was not even begun (no context, an earlier violation, …), else success
};

enum class CopySide : std::uint8_t { pageable, pinned, device };

// One piece of work, when its time is settled. That may be before it `end`s by the host's clock, `now`.
struct WorkActivity {
  ActivityKinds kind;
  std::uint32_t correlation;
  std::uint32_t context, stream;
  std::uint32_t thread;  // that made the call: its pthread_self(), cut off
  std::int64_t start, end, now;
  bool async;           // copies, sets
  std::uint64_t bytes;  // copies, sets
  std::uint32_t value;  // sets
  CopySide from, to;    // copies; sets: to
  const char* name;     // kernels; lives as long as the process
  unsigned grid[3], block[3], shared_bytes;
  bool cooperative;
  std::uint32_t graph;  // that it is a node of; 0: none
};

// Called with the driver's lock held: an implementation may not call CUDA.
struct ActivitySink {
  void (*call)(const CallActivity&);
  void (*work)(const WorkActivity&);
  // Not under the lock: a call of the runtime begins, or ends, in this thread.
  void (*runtime_call)(bool begins, std::uint32_t correlation);
};

struct ActivityTable {
  std::size_t size;  // of this table
  // Notes these kinds from now on; no kinds: no more calls, and no more work that is submitted later. The
  // sink must live as long as the process. Null: not even work that was submitted before.
  void (*listen)(const ActivitySink* sink, unsigned kinds);
  std::int64_t (*now)();   // the host's clock; 0 before cuInit
  void (*wait_for_all)();  // the host waits for everything submitted
  // Public ids; 0 where there is no such thing.
  std::uint32_t (*context_id)(CUcontext context);
  std::uint32_t (*stream_id)(CUcontext context, CUstream stream, bool per_thread);
  // The runtime: this thread begins and ends a call.
  void (*begin_runtime_call)();
  void (*end_runtime_call)();
};

}  // namespace softgpu
