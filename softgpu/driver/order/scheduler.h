// Order and time. Work enters a stream's queue and runs as soon as everything before it has: at once, on the
// submitting thread, unless a host function or a wait-value holds its stream (or one it waits for) back. With
// a seed, work is left lying and picked in any order that the streams allow.
//
//   a work starts at max(host clock at submission, its stream, what it waits for, its engine free)
//
// Everything here happens under one mutex, the caller's lock. A host function runs on the one driver thread,
// with the mutex released.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "softgpu/driver/checks/checker.h"
#include "softgpu/driver/checks/host_guard.h"
#include "softgpu/driver/model/links.h"
#include "softgpu/driver/model/model.h"
#include "softgpu/driver/model/noise.h"
#include "softgpu/driver/terms/stream.h"

namespace softgpu {

using Lock = std::unique_lock<std::mutex>;

class Scheduler {
 public:
  // `provenance`: is told of the works that run; null where the device computes.
  Scheduler(const Model& model, const Noise& noise, Checker& checker, Provenance* provenance,
            HostGuard& guard, Violations& violations, std::optional<std::uint64_t> seed);

  std::mutex mutex;

  // --- the host -------------------------------------------------------------------------------------------
  Nanoseconds now = 0;  // the host's virtual clock
  const VectorClock& host_clock() const { return host_; }
  // An access by the host itself.
  Access host_access(const char* name, std::uint64_t call);
  // The host learns what `record` knew, and has waited for it.
  void host_follows(const VectorClock& clock, Nanoseconds time);

  // --- streams --------------------------------------------------------------------------------------------
  StreamPtr add_stream(Context* context, unsigned flags, int priority);
  // No more work comes; what is queued still runs.
  void retire(const StreamPtr& stream);
  std::vector<StreamPtr> streams_of(const Context* context) const;

  // Both: an error where the stream, or one that it is ordered with, is captured and that cannot go on.
  CUresult submit(Lock& lock, const StreamPtr& stream, Work work);
  CUresult record(Lock& lock, const StreamPtr& stream, const RecordPtr& record, const char* name,
                  std::uint64_t call);

  // The host spends the time that cuMemSetAccess takes for so many handles of the device.
  void give_access(int device, std::uint64_t handles);

  // Before a launch: the host waits until fewer than 1,024 are ahead of the device.
  void wait_for_room(Lock& lock, int device);

  // --- waiting and asking ---------------------------------------------------------------------------------
  // The host waits for all work of a stream (the legacy stream: of all blocking streams as well).
  void wait(Lock& lock, const StreamPtr& stream);
  void wait(Lock& lock, const RecordPtr& record);
  void wait_context(Lock& lock, const Context* context);  // null: everything
  // Whether it has finished by the host's clock. Then the host has seen it.
  bool finished(Lock& lock, const StreamPtr& stream);
  bool finished(Lock& lock, const RecordPtr& record);
  // Runs whatever can run; used where memory is short.
  void settle(Lock& lock);
  // No more host functions; called at exit.
  void stop(Lock& lock);

 private:
  struct HostJob {
    StreamPtr stream;
  };
  std::vector<StreamPtr> with_blocking(const StreamPtr& stream) const;
  void add_legacy_dependencies(const StreamPtr& stream, Work& work) const;
  bool waits_for_captured(const Stream& stream) const;
  bool ready(Stream& stream) const;
  void progress();        // after something changed
  void run_everything();  // that can run now
  bool run_one();         // the seeded choice
  void step(const StreamPtr& stream);
  void start_host_function(const StreamPtr& stream);
  void execute(Stream& stream, Work& work);
  bool check(Work& work, Stream& stream, Checker::Landed& landed);
  Nanoseconds end_of(const Work& work, const Checker::Landed& landed, Nanoseconds start);
  void run(Work& work);
  bool passes_at_once(const Stream& stream) const;
  void pass(Stream& stream, Record& record) const;
  void drop_everything();
  void sweep();
  void start_thread();
  void driver_thread();
  bool any_gate() const;
  template <typename Done>
  void wait_until(Lock& lock, Done done);

  const Model& model_;
  const Noise noise_;
  Checker& checker_;
  Provenance* const provenance_;
  HostGuard& guard_;
  Violations& violations_;
  std::optional<std::mt19937_64> random_;

  VectorClock host_;
  std::vector<StreamPtr> streams_;  // alive, or destroyed with work that the host has not seen
  std::set<StreamPtr> pending_;     // with work left
  std::vector<AgentId> spare_;      // agents of gone streams
  AgentId next_agent_ = 1;
  std::uint32_t next_id_ = 1;
  struct Engines {
    Nanoseconds compute_free = 0, to_device_free = 0, to_host_free = 0;
    std::uint64_t launches_waiting = 0;    // that nothing ran yet
    std::deque<Nanoseconds> launches_end;  // of the others, ascending, as far as the host is behind
  };
  std::array<Engines, most_devices> engines_;  // by device
  Links links_;

  std::condition_variable changed_;
  std::deque<HostJob> jobs_;
  bool thread_started_ = false;
  bool stopping_ = false;
};

// Whether this thread is inside a host function. It may not call CUDA then.
bool in_host_function();

}  // namespace softgpu
