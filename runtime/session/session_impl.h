// What a session is made of. Included by session*.cpp alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "runtime/execution/executor.h"
#include "runtime/execution/remaking.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/counting_device.h"
#include "runtime/memory/held.h"
#include "runtime/observe/live_report.h"
#include "runtime/observe/profiler.h"
#include "runtime/observe/recorder.h"
#include "runtime/observe/trace.h"
#include "runtime/planning/planning.h"
#include "runtime/session/device_probes.h"
#include "runtime/session/failures.h"
#include "runtime/session/hidden.h"
#include "runtime/session/known_allocations.h"
#include "runtime/session/memory.h"
#include "runtime/session/session.h"
#include "runtime/session/threads_work.h"
#include "runtime/session/watch.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// What is settled when a session opens.
struct Setting {
  const Config config;
  const DeviceInfo info;
  const Limits limits;
  const Arena arena;
};

// Observers.
struct Observers {
  Profiler profiler;
  DeviceProbes probes;
  Recorder recorder;
  std::unique_ptr<Trace> trace;
  LiveReport live;
  std::atomic<bool> details_wanted{false};  // by the profiler; readable without the mutex
  // CountingDevice::moves, StreamOrder::waits_for_own and SubstituteTrials::passes when an op was last
  // launched.
  std::uint64_t moves_at_launch = 0;
};

// What managed allocations take, rounded to pages.
struct Usage {
  std::uint64_t managed = 0;  // bytes
  std::uint64_t peak = 0;     // of these
  std::atomic<std::uint64_t> occupied{
      0};  // bytes, with what is outside of the pool; readable without the mutex
};

struct Session::Impl {
  Impl(Setting settled, Device& raw_device);
  ~Impl();

  Status start();
  void set_resorts();

  // --- session_memory.cpp
  std::optional<Address> address_for(std::uint64_t bytes, StreamHandle stream);
  void forget_ranges(const std::vector<Residency::Span>& ranges);
  Result<std::optional<Address>> reuse_memory(std::uint64_t bytes, StreamHandle stream);
  Status allocate_range(std::uint64_t bytes, StreamHandle stream, std::optional<Address>& address,
                        Held& held);
  void report_full(std::uint64_t bytes);
  void report_too_large(std::uint64_t bytes);
  bool relieve(std::uint64_t bytes, Held& held);
  void count_outside(std::uint64_t bytes, Held& held);
  std::uint64_t occupied() const { return usage.managed + memory.pool.taken_outside(); }
  void publish_occupied() { usage.occupied.store(occupied(), std::memory_order_relaxed); }
  // Every change of the list of allocations.
  tracker::Allocation add_allocation(Address base, std::uint64_t bytes, bool managed, bool by_program,
                                     void* origin, bool counts = true);
  std::optional<tracker::Allocation> remove_allocation(Address base);

  // --- session_landing.cpp
  void land_from_the_start();
  Status begin_landing(Held& held);
  Status expect_unforeseen(Held& held);
  void end_landing();
  int launch_without_operands(const Call& call, FunctionRef<int()> real, const Refusal& refusal, Held& held);

  // --- session.cpp
  Status make_ready(const Call& call, Work& w, StreamIndex stream, Executor::Readied& readied, Held& held);
  Status order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream);
  static int launch(const Call& call, Work& w, FunctionRef<int()> real, Held& held);
  Trace::Number show(const Call& call, const Work& w, StreamIndex stream,
                     std::optional<std::int32_t> position);
  void note_use(Work& w, StreamIndex stream, bool succeeded);
  // Whether no plan is followed and memory has been short: what comes is foreseen, moved ahead and remade.
  bool streams() const {
    return setting.config.policy != Policy::keep && memory.placement->fallbacks() > 0 &&
           !executor->follows() && !executor->aliased();
  }
  void move_ahead(const Call& call, const Work& w, bool planned, bool timed, Held& held);
  void try_substitute(const Call& call, tracker::Op& op);
  // For a call that is not made: Failures::refuse. If a call of pooch's own lacks memory, its caller says
  // what follows.
  int refuse(const Call& call, const Error& why, const Refusal& refusal) {
    const bool doubtful = memory.residency->doubt().has_value();
    if (call.own && why.code == ErrorCode::out_of_memory && !doubtful) return refusal.out_of_memory;
    return failures.refuse(call.function, why, doubtful, refusal);
  }

  // --- session_profile.cpp
  bool idle_for_probe(Held& held);
  void measure_link_for_report(Held& held);
  void plan(Held& held);
  Profile make_profile(bool estimates);
  void publish_details() {
    if (!setting.config.report_folder.empty())
      observers.details_wanted.store(observers.profiler.describing(), std::memory_order_relaxed);
  }

  // --- session_live.cpp
  LiveState live_state() const;
  Live live();
  void show_live();

  // --- session_watch.cpp
  // Starts watching the program's calls, if it has not started.
  void begin_watch();
  // Whether `taken` bytes, or `more` than is taken now, are so near to being short that calls must be
  // watched.
  bool nearly_short(std::uint64_t more) const { return near_short(occupied() + more); }
  bool near_short(std::uint64_t taken) const { return taken > setting.limits.cap / 2; }
  void back_at_once(Range& range, std::optional<StreamHandle> stream, Held& held);

  // --- session_pins.cpp
  void note_small_buffers(const Call& call, const tracker::Op& op);
  bool small_buffers_due() const {
    return hidden.small_buffers.due() && occupied() > setting.limits.cap && observers.profiler.describing();
  }
  // `stream`: that of the call at hand. Puts off what cannot be done now.
  void scan_small_buffers(Session& session, StreamHandle stream, Held& held);
  Status scan(Session& session, const SmallBuffers::Buffers& buffers, std::byte* host);
  void find_tables();
  void miss_tables(const Error& why);
  Status await_copies();
  Result<bool> copy_for_scan(std::byte* host, Address from, std::uint64_t bytes);
  // One of the operands stays where it is since something unseen may use it.
  static bool uses_pinned(const tracker::Op& op) {
    return std::any_of(op.operands.begin(), op.operands.end(), [](const tracker::Operand& operand) {
      return operand.backing != nullptr && static_cast<const Range*>(operand.backing)->pinned;
    });
  }

  Setting setting;
  CountingDevice device;
  Watch watch;
  mutable SessionMutex mutex;
  tracker::Tracker tracker;
  KnownAllocations allocations;
  Memory memory;
  Usage usage;
  Hidden hidden;
  Failures failures;
  std::optional<Verification> verification;
  std::optional<Executor> executor;
  std::optional<Remaking> remaking;
  Observers observers;
  std::optional<Planning> planning;
};

}  // namespace pooch::runtime
