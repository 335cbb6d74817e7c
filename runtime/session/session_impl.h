// What a session is made of. Included by session*.cpp alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/bytes.h"
#include "core/per_thread.h"
#include "runtime/execution/executor.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/counting_device.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/landing.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/observe/profiler.h"
#include "runtime/observe/recorder.h"
#include "runtime/observe/trace.h"
#include "runtime/placement/demand.h"
#include "runtime/planning/planning.h"
#include "runtime/session/session.h"
#include "runtime/session/watch.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

struct Arena {
  Address base;
  std::uint64_t bytes;
};

// What one submit works on, kept per thread so that a call in steady state allocates nothing.
struct Work {
  tracker::Op op;
  std::vector<ChunkUse> uses;
  const void* session = nullptr;  // whose submit it is
  // During the real call: of the session's mutex, held or not.
  Held* launch = nullptr;
  std::optional<StreamIndex> entered;  // by an unforeseen op: runtime/memory/landing.h
};

// The calling thread's, for one submit: a call with operands on two devices is one inside the other.
class ThreadsWork {
 public:
  explicit ThreadsWork(const void* session = nullptr) {
    if (stack().depth == stack().all.size()) stack().all.emplace_back();
    Work& work = stack().all[stack().depth++];
    work.session = session;
    work.uses.clear();
    work.entered.reset();
  }
  ~ThreadsWork() { --stack().depth; }
  ThreadsWork(const ThreadsWork&) = delete;
  ThreadsWork& operator=(const ThreadsWork&) = delete;
  Work& operator*() const { return stack().all[stack().depth - 1]; }
  static bool inside_any() { return stack().depth > 0; }
  // The session's submit that the thread is in; nullptr: none.
  static Work* inside(const void* session) {
    for (std::size_t i = stack().depth; i > 0; --i)
      if (stack().all[i - 1].session == session) return &stack().all[i - 1];
    return nullptr;
  }

 private:
  struct Stack {
    std::deque<Work> all;  // in place while others come and go
    std::size_t depth = 0;
  };
  static Stack& stack() { return per_thread<Stack>(); }
};

struct Session::Impl {
  Impl(const Config& config, Device& raw_device, DeviceInfo info, Limits limits, Arena arena);
  ~Impl();

  Status start();
  Status allocate_range(std::uint64_t bytes, StreamHandle stream, std::optional<Address>& address,
                        Held& held);
  // session_landing.cpp
  void land_from_the_start();
  Status begin_landing(Held& held);
  Status expect_unforeseen(Held& held);
  void end_landing();
  int launch_without_operands(const Call& call, FunctionRef<int()> real, const Refusal& refusal, Held& held);
  Status make_ready(const Call& call, Work& w, StreamIndex stream, Executor::Readied& readied, Held& held);
  Status order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream);
  int launch(const Call& call, Work& w, FunctionRef<int()> real, Held& held);
  Trace::Number show(const Call& call, const Work& w, StreamIndex stream,
                     std::optional<std::int32_t> position);
  void note_use(Work& w, StreamIndex stream, bool succeeded);
  bool idle_for_probe(Held& held);
  void probe_link(Held& held);
  void probe_mapping();
  Status probe_link_over(Address address, std::uint64_t bytes);
  void plan(Held& held);
  Profile make_profile(bool estimates);
  // Something of pooch's own failed, and no content can be wrong for it: said once.
  void report_failure(std::string_view where, const Error& why, std::string_view consequence);
  // What is noted here and what the device has may differ: said once, and from now on every call that may
  // read managed memory fails.
  void fail(std::string_view where, const Error& why);
  bool failed() const { return failure.load(std::memory_order_relaxed); }
  int refuse(std::string_view where, const Error& why, const Refusal& refusal);
  void report_full(std::uint64_t bytes);
  void report_too_large(std::uint64_t bytes);
  // What passed-through memory takes when `more` is charged too: by our own account or the device's,
  // whichever is more, and a page for the next small allocation, which may find the driver's pages full.
  std::uint64_t outside_with(std::uint64_t more) const {
    const std::uint64_t taken = std::max(outside_bytes.load(), measured_outside) + more;
    return taken == 0 ? 0 : round_up(taken, page) + page;
  }
  bool relieve(std::uint64_t bytes, Held& held);
  void measure_outside(std::uint64_t added);
  void count_outside(std::uint64_t bytes, Held& held);
  void ask_outside();
  bool outside_is_less();
  // Is so much of the cap untouched that what `bytes` outside of the pool really are need not be known at
  // once?
  bool roomy(std::uint64_t bytes) const {
    const std::uint64_t taken = bytes + pool.created();
    return taken <= limits.cap - limits.cap / 8;
  }
  std::uint64_t occupied() const { return live_bytes + pool.taken_outside(); }

  // While it lives, landing does not end. Made under the mutex.
  struct UnforeseenUnderWay {
    UnforeseenUnderWay(Impl& s, bool unforeseen) : session(unforeseen ? &s : nullptr) {
      if (session == nullptr) return;
      ++session->unforeseen_under_way;
      session->iterations_at_last = session->tracker.iterations().count();
    }
    ~UnforeseenUnderWay() {
      if (session != nullptr) --session->unforeseen_under_way;
    }
    UnforeseenUnderWay(const UnforeseenUnderWay&) = delete;
    UnforeseenUnderWay& operator=(const UnforeseenUnderWay&) = delete;

    Impl* session;
  };

  // Every change of the list of allocations, so that `find` sees it whole without the session's mutex.
  tracker::Allocation add_allocation(Address base, std::uint64_t bytes, bool managed, bool by_program,
                                     void* origin, bool counts = true) {
    recorder.allocated({base, bytes, managed, by_program});
    const std::lock_guard leaf(allocations_mutex);
    lowest_address.store(std::min(base, lowest_address.load(std::memory_order_relaxed)),
                         std::memory_order_relaxed);
    highest_address.store(std::max(base + bytes, highest_address.load(std::memory_order_relaxed)),
                          std::memory_order_relaxed);
    if (managed)
      arena_used.store(std::max(base + bytes - arena_span.base, arena_used.load(std::memory_order_relaxed)),
                       std::memory_order_relaxed);
    return tracker.allocated(base, bytes, managed, by_program, origin, counts);
  }
  std::optional<tracker::Allocation> remove_allocation(Address base) {
    small_buffers.erase(base);
    stays.erase(base);
    recorder.freed(base);
    const std::lock_guard leaf(allocations_mutex);
    return tracker.freed(base);
  }
  // Is nothing known of the program's calls so far? Then from here on it is: session_watch.cpp.
  void begin_watch();
  // Would `more` bring memory so near to being short that what calls do should be known by then?
  bool nearly_short(std::uint64_t more) const { return near_short(occupied() + more); }
  bool near_short(std::uint64_t taken) const { return taken > limits.cap / 2; }
  void back_at_once(Range& range, std::optional<StreamHandle> stream, Held& held);
  // Small memory that a kernel of unknown effects wrote may hold addresses: noted, and looked at while ops
  // are still described, before memory is so short that something might leave.
  void note_small_buffers(const Call& call, const tracker::Op& op);
  bool small_buffers_due() const {
    return !small_buffers.empty() && scans < most_scans && occupied() > limits.cap && profiler.describing();
  }
  // `stream`: that of the call at hand. Puts off what cannot be done now.
  void scan_small_buffers(Session& session, StreamHandle stream, Held& held);
  Status scan(Session& session, const std::map<Address, std::uint64_t>& buffers, std::byte* host);
  void find_tables();
  void miss_tables(const Error& why);
  Status await_copies();
  Result<bool> copy_for_scan(std::byte* host, Address from, std::uint64_t bytes);
  void stay(Range& range, std::uint64_t bytes);  // on the device; it is there
  // One of the operands stays where it is since something unseen may use it.
  static bool uses_pinned(const tracker::Op& op) {
    return std::any_of(op.operands.begin(), op.operands.end(), [](const tracker::Operand& operand) {
      return operand.backing != nullptr && static_cast<const Range*>(operand.backing)->pinned;
    });
  }
  void publish_details() {
    if (!config.report_folder.empty()) details_wanted.store(profiler.describing(), std::memory_order_relaxed);
  }
  void publish_occupied() { occupied_bytes.store(occupied(), std::memory_order_relaxed); }

  const Config config;
  const DeviceInfo info;
  const Limits limits;
  const Arena arena_span;
  CountingDevice device;
  Watch watch;
  mutable SessionMutex mutex;
  mutable std::mutex allocations_mutex;  // a leaf; readers that hold `mutex` need not take it
  tracker::Tracker tracker;
  StreamOrder order;
  HandlePool pool;
  HostArena host;
  AddressSpace space, temporaries;  // the program's, and for what replays need
  StreamHandle out_stream{}, in_stream{};
  std::optional<Residency> residency;
  std::optional<Landing> landing;
  Turn landing_begins;         // a thread brings back what left before
  bool tables_missed = false;  // kernels may reach memory by addresses that could not be looked for
  std::optional<Demand> demand;
  std::optional<Departures> departures;
  std::optional<Placement> placement;
  std::optional<Verification> verification;
  std::optional<Executor> executor;
  Profiler profiler;
  std::optional<Planning> planning;
  std::unique_ptr<Trace> trace;
  mutable std::atomic<bool> trace_failed{false};  // to be written; said
  Recorder recorder;
  std::uint64_t live_bytes = 0;                  // managed allocations, rounded to pages
  std::atomic<std::uint64_t> occupied_bytes{0};  // occupied(), for queries
  std::atomic<bool> details_wanted{false};
  std::atomic<std::uint64_t> arena_used{0};  // bytes from its begin in which all that was managed lies
  // All allocations that there ever were lie between them.
  std::atomic<Address> lowest_address{Address{~std::uint64_t{0}}}, highest_address{Address{0}};
  std::atomic<std::uint64_t> outside_bytes{0};  // what passed-through allocations are charged
  std::uint64_t measured_outside = 0;           // what they took of the device when it was last asked
  std::uint64_t free_at_start = 0;              // device bytes free when the session opened
  std::uint64_t measured_peak = 0, passed_since_growth = 0;
  std::uint64_t added_since_asked = 0;  // bytes charged
  std::uint64_t moves_at_launch = 0;    // CountingDevice::moves when an op was last launched
  std::vector<LinkSample> link;
  std::vector<MoveSample> moves;
  double launch_us = 0;
  static constexpr std::uint64_t most_scans = 64;  // each is a host wait
  std::map<Address, std::uint64_t> small_buffers;  // bytes
  std::uint64_t scans = 0;
  static constexpr std::uint64_t largest_table = 2 * MiB;
  std::byte* scan_memory = nullptr;  // so much page-locked memory; nullptr: none, or somebody scans
  // Why an allocation that lives stays on the device.
  struct Stays {
    bool by_address = false;  // for good
    int names = 0;
  };
  std::map<Address, Stays> stays;
  std::uint64_t unforeseen_ops = 0;
  std::atomic<int> unforeseen_under_way{0};                // threads that are in a submit of one
  std::uint64_t iterations_at_last = 0;                    // how many there were when the last one came
  std::uint64_t pinned_allocations = 0, pinned_bytes = 0;  // of the whole run
  std::string last_shortage;                               // that was said
  std::atomic<bool> failure{false}, failure_reported{false}, full_reported{false}, too_large_reported{false},
      pin_refused{false};
};

}  // namespace pooch::runtime
