#include "runtime/session.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/bytes.h"
#include "core/log.h"
#include "core/per_thread.h"
#include "cupti/link_probe.h"
#include "runtime/address_space.h"
#include "runtime/counting_device.h"
#include "runtime/demand.h"
#include "runtime/executor.h"
#include "runtime/handle_pool.h"
#include "runtime/host_arena.h"
#include "runtime/memory_limits.h"
#include "runtime/planning.h"
#include "runtime/profiler.h"
#include "runtime/recorder.h"
#include "runtime/residency.h"
#include "runtime/stream_order.h"
#include "runtime/trace.h"
#include "tracker/tracker.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t largest_arena = std::uint64_t{16} << 40;
constexpr std::uint64_t smallest_arena = 64 * GiB;

struct Arena {
  Address base;
  std::uint64_t bytes;
};

// Address space costs next to nothing; how much a driver grants differs.
Result<Arena> reserve_arena(Device& device) {
  for (std::uint64_t bytes = largest_arena;; bytes /= 2) {
    const auto base = device.reserve(bytes);
    if (base) return Arena{*base, bytes};
    if (bytes <= smallest_arena) return base.error();
  }
}

std::optional<cupti::TimerChoice> timer_choice(Timer timer) {
  switch (timer) {
    case Timer::automatic:
      return cupti::TimerChoice::automatic;
    case Timer::cupti:
      return cupti::TimerChoice::cupti;
    case Timer::events:
      return cupti::TimerChoice::events;
    case Timer::none:
      break;
  }
  return std::nullopt;
}

// What one submit works on, kept per thread so that a call in steady state allocates nothing.
struct Work {
  tracker::Op op;
  std::vector<ChunkUse> uses;
};

}  // namespace

struct Session::Impl {
  Impl(const Config& config_, Device& raw_device, DeviceInfo info_, Limits limits_, Arena arena_)
      : config(config_),
        info(std::move(info_)),
        limits(limits_),
        arena_span(arena_),
        device(raw_device),
        order(device),
        pool(device, limits.cap),
        host(device, order, limits.host_budget),
        space(arena_.base, arena_.bytes - arena_.bytes / 16),
        temporaries(arena_.base + (arena_.bytes - arena_.bytes / 16), arena_.bytes / 16) {}
  ~Impl();

  Status start();
  Status allocate_range(std::uint64_t bytes, StreamHandle stream, std::optional<Address>& address,
                        std::unique_lock<std::mutex>& lock);
  Status order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream);
  int launch(const Call& call, Work& w, FunctionRef<int()> real, std::unique_lock<std::mutex>& lock);
  Trace::Number show(const Call& call, const Work& w, StreamIndex stream,
                     std::optional<std::int32_t> position);
  void note_use(Work& w, StreamIndex stream, bool succeeded);
  bool idle_for_probe(std::unique_lock<std::mutex>& lock);
  void probe_link(std::unique_lock<std::mutex>& lock);
  Status probe_link_over(Address address, std::uint64_t bytes);
  void plan(std::unique_lock<std::mutex>& lock);
  Profile make_profile();
  void report_failure(const char* where, const Error& why);
  void report_full(std::uint64_t bytes);
  // What passed-through memory takes when `more` is charged too: by our own account or the device's,
  // whichever is more, and a page for the next small allocation, which may find the driver's pages full.
  std::uint64_t outside_with(std::uint64_t more) const {
    const std::uint64_t taken = std::max(outside_bytes, measured_outside) + more;
    return taken == 0 ? 0 : round_up(taken, page) + page;
  }
  void measure_outside();
  std::uint64_t occupied() const { return live_bytes + pool.outside(); }

  // Every change of the list of allocations, so that `find` sees it whole without the session's mutex.
  tracker::Allocation add_allocation(Address base, std::uint64_t bytes, bool managed, bool by_program) {
    recorder.allocated({base, bytes, managed, by_program});
    const std::lock_guard leaf(allocations_mutex);
    return tracker.allocated(base, bytes, managed, by_program);
  }
  void remove_allocation(Address base) {
    recorder.freed(base);
    const std::lock_guard leaf(allocations_mutex);
    tracker.freed(base);
  }
  void publish_call_sites() {
    if (config.call_sites && !config.report_folder.empty())
      call_sites_wanted.store(profiler.describing(), std::memory_order_relaxed);
  }
  void publish_occupied() { occupied_bytes.store(occupied(), std::memory_order_relaxed); }

  const Config config;
  const DeviceInfo info;
  const Limits limits;
  const Arena arena_span;
  CountingDevice device;
  mutable std::mutex mutex;
  mutable std::mutex allocations_mutex;  // a leaf; readers that hold `mutex` need not take it
  tracker::Tracker tracker;
  StreamOrder order;
  HandlePool pool;
  HostArena host;
  AddressSpace space, temporaries;  // the program's, and for what replays need
  StreamHandle out_stream{}, in_stream{};
  std::optional<Residency> residency;
  std::optional<Demand> demand;
  std::optional<Departures> departures;
  std::optional<Placement> placement;
  std::optional<Executor> executor;
  Profiler profiler{device, tracker, timer_choice(config.timer)};
  std::optional<Planning> planning;
  std::unique_ptr<Trace> trace;
  Recorder recorder;
  std::uint64_t live_bytes = 0;                  // managed allocations, rounded to pages
  std::atomic<std::uint64_t> occupied_bytes{0};  // occupied(), for queries
  std::atomic<bool> call_sites_wanted{false};
  std::uint64_t outside_bytes = 0;     // what passed-through allocations are charged
  std::uint64_t measured_outside = 0;  // what they took of the device when it was last asked
  std::uint64_t free_at_start = 0;     // device bytes free when the session opened
  std::uint64_t measured_peak = 0, passed_since_growth = 0;
  std::vector<LinkSample> link;
  std::atomic<bool> failure_reported{false}, full_reported{false};
};

Status Session::Impl::start() {
  for (StreamHandle* stream : {&out_stream, &in_stream}) {
    const auto made = device.create_stream();
    if (!made) return made.error();
    *stream = *made;
  }
  const auto free = device.free_bytes();
  if (!free) return free.error();
  free_at_start = *free;
  residency.emplace(device, order, pool, host, out_stream, in_stream);
  demand.emplace(device, order, pool, host, *residency, config.policy);
  departures.emplace(device, order, pool, *residency);
  placement.emplace(limits, pool, *residency, *departures, *demand);
  executor.emplace(
      Executor::Parts{order, pool, *residency, *departures, *placement, temporaries, tracker, device});
  placement->set_last_resort([this](std::unique_lock<std::mutex>& held) -> Result<bool> {
    if (!executor->aliased()) return false;
    if (const auto apart = executor->dismantle(held); !apart) return apart.error();
    return true;
  });
  publish_call_sites();
  if (!config.trace_file.empty()) {
    auto timer = cupti::open_op_timer(device, cupti::TimerChoice::events);  // the profiler may hold CUPTI
    if (!timer) return timer.error();
    trace = std::make_unique<Trace>(std::move(*timer), limits.cap);
    residency->show_in(trace.get());
    executor->show_in(trace.get());
  }
  if (is_planned(config.policy) || !config.plan_file.empty()) {
    // For what allocations outside of the plan may take at any time, and for what a layout loses.
    const std::uint64_t spare = 4 * page + (config.alias_backing ? limits.cap / 96 : 0);
    auto source =
        PlanSource::open(config, {info.name, limits.cap > spare ? limits.cap - spare : 0, limits.host_budget,
                                  config.alias_backing ? Backing::alias : Backing::remap});
    if (!source) return source.error();
    planning.emplace(std::move(*source), config.wait_for_plans, *executor, profiler, tracker);
  }
  recorder.open(config.record_file, {info.name, info.total_bytes, limits.cap, limits.host_budget,
                                     std::string(name(config.policy))});
  return Done{};
}

Session::Impl::~Impl() {
  (void)device.synchronize_all();
  if (residency)
    while (!residency->mapped().empty())
      if (!residency->finish_eviction(*residency->mapped().back())) break;
  for (const StreamHandle stream : {out_stream, in_stream})
    if (stream != StreamHandle{}) (void)device.destroy_stream(stream);
  (void)device.release(arena_span.base, arena_span.bytes);
}

Result<std::unique_ptr<Session>> Session::open(const Config& config, Device& device) {
  auto info = device.info();
  if (!info) return info.error();
  const auto limits = settle_limits(config, *info);
  if (!limits) return limits.error();
  const auto arena = reserve_arena(device);
  if (!arena) return arena.error();
  auto impl = std::make_unique<Impl>(config, device, *info, *limits, *arena);
  nvtx::open();
  if (const auto started = impl->start(); !started) return started.error();
  log::info("{}: cap {}, host budget {}, policy {}", info->name, format_bytes(limits->cap),
            format_bytes(limits->host_budget), name(config.policy));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

// --- reports

// The device refused something of ours. Said once: what follows is CUDA's own error in the program's own
// calls.
void Session::Impl::report_failure(const char* where, const Error& why) {
  if (failure_reported.exchange(true)) return;
  log::error("{}: {}; the program goes on without help and will see CUDA's own errors", where, why.message);
}

void Session::Impl::report_full(std::uint64_t bytes) {
  if (full_reported.exchange(true)) return;
  log::warn("out of memory: {} more do not fit beside {} in use; the cap is {}, the host budget {}",
            format_bytes(bytes), format_bytes(occupied()), format_bytes(limits.cap),
            format_bytes(limits.host_budget));
}

// --- allocation

bool Session::manages(std::uint64_t bytes) const {
  return bytes >= smallest_managed;
}

Status Session::Impl::allocate_range(std::uint64_t bytes, StreamHandle stream,
                                     std::optional<Address>& address, std::unique_lock<std::mutex>& lock) {
  address = space.allocate(bytes, stream, residency->evictions() == 0);
  if (address) return Done{};
  if (const auto apart = executor->dismantle(lock); !apart) return apart;
  const auto forgotten = demand->forget_unused(lock);
  if (!forgotten) return forgotten.error();
  space.coalesce(*forgotten);
  address = space.allocate(bytes, stream, residency->evictions() == 0);
  if (!address) return Error{ErrorCode::out_of_memory, "the address space is exhausted"};
  return Done{};
}

Result<Address> Session::allocate(std::uint64_t bytes, std::optional<StreamHandle> stream) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const std::uint64_t rounded = round_up(bytes, page);
  if (rounded < bytes || s.occupied() + rounded > s.limits.cap + s.limits.host_budget) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  std::optional<Address> address;
  const auto found = s.allocate_range(rounded, stream.value_or(StreamHandle{}), address, lock);
  if (!found) return found.error();
  const tracker::Allocation made = s.add_allocation(*address, bytes, /*managed=*/true, /*by_program=*/true);
  s.tracker.set_backing(*address, &s.residency->open(*address, rounded, made.id, bytes));
  s.live_bytes += rounded;
  s.publish_occupied();
  return *address;
}

Status Session::free(Address address, std::optional<StreamHandle> stream) {
  Impl& s = *impl_;
  // cudaFree's promise. What cannot be waited for (a stream is capturing) the driver's own free would refuse
  // too.
  if (!stream) (void)s.device.synchronize_all();
  std::unique_lock lock(s.mutex);
  const tracker::Allocation* gone = s.tracker.allocations().starting_at(address);
  if (gone == nullptr || !gone->managed)
    return Error{ErrorCode::invalid_argument, "not the start of a live allocation"};
  Marks after;
  if (stream) {
    const StreamIndex index = s.order.index(*stream);
    // A range that streams hand to each other will be filled again by one while another is ahead with other
    // work.
    const bool handed_over = s.residency->find(address)->used_beside(index);
    const auto mark = handed_over ? s.order.launched_exactly(index) : s.order.launched(index);
    if (!mark) return mark.error();
    after.add(*mark);
  }
  const std::uint64_t rounded = round_up(gone->bytes, page);
  Range& range = *s.residency->find(address);
  if (const auto ready = s.executor->freeing(range, gone->id, lock); !ready) return ready.error();
  s.residency->close(range, after);
  if (const auto freed = s.executor->freed(range); !freed) return freed.error();
  s.remove_allocation(address);
  s.space.free(address, rounded, stream.value_or(StreamHandle{}));
  s.live_bytes -= rounded;
  s.publish_occupied();
  return Done{};
}

Status Session::admit_pass_through(std::uint64_t bytes) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const std::uint64_t now = s.outside_with(pass_through_charge(bytes));
  const std::uint64_t more = now > s.pool.outside() ? now - s.pool.outside() : 0;
  if (now > s.limits.cap) {
    if (!s.full_reported.exchange(true))
      log::error(
          "{} of small allocations cannot leave the device: the smallest cap that works is {} ({} MiB); it "
          "is {}",
          format_bytes(s.outside_bytes + bytes), format_bytes(now), now / MiB, format_bytes(s.limits.cap));
    return Error{ErrorCode::out_of_memory, "the cap is exhausted"};
  }
  if (s.occupied() + more > s.limits.cap + s.limits.host_budget) {
    s.report_full(bytes);
    return Error{ErrorCode::out_of_memory, "cap and host budget are exhausted"};
  }
  if (const auto made = s.placement->make_room(more, lock); !made) return made.error();
  s.outside_bytes += pass_through_charge(bytes);
  const Status moved_over = s.pool.set_outside(s.outside_with(0));
  s.publish_occupied();
  return moved_over;
}

// How tightly the driver packs small allocations only the driver knows. Asking costs some microseconds: it is
// asked each time while the answers still grow, and now and then once they have been steady for some
// iterations.
void Session::Impl::measure_outside() {
  constexpr std::uint64_t steady = 4096, now_and_then = 64;
  if (++passed_since_growth > steady && passed_since_growth % now_and_then != 0) return;
  const auto free = device.free_bytes();
  if (!free) return;
  const std::uint64_t taken = free_at_start > *free ? free_at_start - *free : 0;
  measured_outside = taken > pool.created() ? taken - pool.created() : 0;
  if (measured_outside <= measured_peak) return;
  measured_peak = measured_outside;
  passed_since_growth = 0;
}

void Session::passed_through(Address address, std::uint64_t bytes, bool by_program) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  s.add_allocation(address, bytes, /*managed=*/false, by_program);
  s.measure_outside();
  // The memory is there already; whatever else can move makes way. Where nothing can, the next one is
  // refused.
  const std::uint64_t now = s.outside_with(0);
  if (now > s.pool.outside())
    (void)s.placement->make_room(std::min(now - s.pool.outside(), s.pool.limit()), lock);
  (void)s.pool.set_outside(s.outside_with(0));
  s.publish_occupied();
}

void Session::pass_through_failed(std::uint64_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->outside_bytes -= pass_through_charge(bytes);
  (void)impl_->pool.set_outside(impl_->outside_with(0));
  impl_->publish_occupied();
}

// Others have grown on the device, or the driver packs more loosely than it did.
bool Session::relieve_device(std::uint64_t bytes) {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  s.passed_since_growth = 0;  // the account that was held to be steady is not
  s.measure_outside();
  const std::uint64_t wanted = std::min(round_up(bytes, page) + page, s.pool.created());
  const std::uint64_t never_created = s.pool.limit() - std::min(s.pool.limit(), s.pool.created());
  (void)s.placement->make_room(never_created + wanted, lock);
  const auto given = s.pool.give_up(wanted);
  (void)s.pool.set_outside(s.outside_with(0));
  s.publish_occupied();
  return given && *given > 0;
}

void Session::pass_through_freed(Address address) {
  const std::lock_guard lock(impl_->mutex);
  const tracker::Allocation* gone = impl_->tracker.allocations().starting_at(address);
  if (gone == nullptr || gone->managed) return;
  const std::uint64_t charge = pass_through_charge(gone->bytes);
  impl_->outside_bytes -= charge;
  if (charge >= page) impl_->measured_outside -= std::min(impl_->measured_outside, charge);
  impl_->remove_allocation(address);
  (void)impl_->pool.set_outside(impl_->outside_with(0));
  impl_->publish_occupied();
}

// --- queries

bool Session::owns(Address address) const {
  return impl_->space.contains(address);
}

std::optional<Extent> Session::find(Address address) const {
  if (!owns(address)) return std::nullopt;
  const std::lock_guard leaf(impl_->allocations_mutex);
  const tracker::Allocation* found = impl_->tracker.allocations().containing(address);
  return found == nullptr ? std::nullopt : std::optional(Extent{found->base, found->bytes});
}

MemoryInfo Session::memory_info() const {
  const std::uint64_t total = impl_->limits.cap + impl_->limits.host_budget;
  const std::uint64_t used = impl_->occupied_bytes.load(std::memory_order_relaxed);
  return {used < total ? total - used : 0, total};
}

// --- work

Status Session::Impl::order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream) {
  for (const ChunkUse& use : uses)
    if (const auto followed = order.follow(stream, use.chunk->before); !followed) return followed;
  return Done{};
}

void Session::Impl::note_use(Work& w, StreamIndex stream, bool succeeded) {
  const auto mark = order.launched(stream);
  if (!mark) return report_failure("recording an event", mark.error());
  if (!succeeded) {
    // Nothing was written, so what the op would have overwritten is still wanted.
    for (ChunkUse& use : w.uses) use.changes = false, use.needs_content = true;
    if (const auto fetched = residency->make_resident(w.uses); !fetched)
      report_failure("fetching an operand", fetched.error());
  } else {
    tracker.launched(w.op);
    profiler.launched();
    publish_call_sites();
  }
  residency->used(w.uses, *mark, placement->clock());
  for (const ChunkUse& use : w.uses)
    if (use.changes) use.chunk->live = tracker.live(use.chunk->owner, use.chunk->offset, use.chunk->occupied);
}

int Session::submit(const Call& call, FunctionRef<int()> launch, int out_of_memory) {
  Impl& s = *impl_;
  Work& w = per_thread<Work>();
  std::unique_lock lock(s.mutex);
  s.tracker.resolve(call, w.op);
  if (w.op.operands.empty()) {
    lock.unlock();
    return launch();
  }
  const StreamIndex stream = s.order.index(call.stream);
  const std::uint64_t moved = s.device.counters().bytes_in + s.device.counters().bytes_out;
  const auto position = s.executor->before(w.op, call.stream, lock);
  if (!position) {
    lock.unlock();
    log::error("{}: {}; the call fails rather than go on with a doubtful value", call.function,
               position.error().message);
    return out_of_memory;
  }
  Status ready = Done{};
  w.uses.clear();
  if (w.op.managed) ready = s.placement->place(call.function, w.op.operands, w.uses, lock);
  if (ready) ready = s.order_stream(w.uses, stream);
  if (!ready) {
    lock.unlock();
    if (ready.error().code == ErrorCode::out_of_memory) {
      log::error("{}", ready.error().message);
      return out_of_memory;
    }
    s.report_failure("making operands resident", ready.error());
    return launch();
  }
  if (*position && s.executor->wants_copy(**position) && call.keep != nullptr)
    s.executor->keep(**position, call, w.op, (*call.keep)());
  const bool timed = s.profiler.timing();
  const Trace::Number shown = s.show(call, w, stream, *position);
  if (timed) s.profiler.begin(call.stream);
  const int status = s.launch(call, w, launch, lock);
  if (s.trace) s.trace->end(shown);
  if (timed)
    s.profiler.end(call.stream, w.op, moved != s.device.counters().bytes_in + s.device.counters().bytes_out);
  s.note_use(w, stream, status == 0);
  if (status != 0) return status;
  if (*position)
    if (const auto acted = s.executor->after(**position, w.op); !acted)
      s.report_failure("evicting", acted.error());
  s.recorder.launched(call);
  s.plan(lock);
  return status;
}

bool Session::wants_call_sites() const {
  return impl_->call_sites_wanted.load(std::memory_order_relaxed);
}

// The op as a slice of the timeline.
Trace::Number Session::Impl::show(const Call& call, const Work& w, StreamIndex stream,
                                  std::optional<std::int32_t> position) {
  if (!trace) return Trace::none;
  const auto where = tracker.iterations().where();
  if (where && where->start == tracker.steps() && w.op.step)
    trace->iteration(phase_id(tracker.iterations().phase(where->phase)));
  TraceSlice slice{TraceTrack::compute, call.function, call.stream, position.value_or(-1), 0, 0, {}};
  for (const ChunkUse& use : w.uses) {
    Chunk& chunk = *use.chunk;
    if (chunk.flow != 0) slice.flow = std::exchange(chunk.flow, 0);
    for (const Mark& mark : chunk.before) {
      if (mark.stream == stream) continue;
      const auto finished = order.finished(mark);
      if (finished && !*finished) slice.cause = "copy";
    }
  }
  trace->memory(pool.created() + pool.outside() - pool.idle());
  return trace->begin(slice);
}

// A call in which the host waits must not keep other threads out; what it uses stays where it is.
int Session::Impl::launch(const Call& call, Work& w, FunctionRef<int()> real,
                          std::unique_lock<std::mutex>& lock) {
  if (!call.blocks) return real();
  for (const ChunkUse& use : w.uses) ++use.chunk->pins;
  lock.unlock();
  const int status = real();
  lock.lock();
  for (const ChunkUse& use : w.uses) --use.chunk->pins;
  return status;
}

void Session::note_host_blocking(StreamHandle stream) {
  const std::lock_guard lock(impl_->mutex);
  if (const auto noted = impl_->order.note_host_blocking(impl_->order.index(stream)); !noted)
    impl_->report_failure("recording an event", noted.error());
}

void Session::stream_destroyed(StreamHandle stream) {
  const std::lock_guard lock(impl_->mutex);
  impl_->space.disown(stream);
  impl_->profiler.stream_destroyed(stream);
  if (const auto retired = impl_->order.retire(stream); !retired)
    impl_->report_failure("recording an event", retired.error());
}

// Waits until the link is idle; false where the program itself may hold up a stream.
bool Session::Impl::idle_for_probe(std::unique_lock<std::mutex>& lock) {
  const auto blocked = order.host_blocked();
  if (!blocked || *blocked) return false;
  lock.unlock();
  (void)device.synchronize_all();
  lock.lock();
  return true;
}

// Between two iterations: plans for phases that are known by now, for which the link has to be measured once.
void Session::Impl::plan(std::unique_lock<std::mutex>& lock) {
  if (!planning || !planning->wants_to_act()) return;
  if (link.empty() && planning->wants_profile() && idle_for_probe(lock)) probe_link(lock);
  double out_us_per_byte = 0;
  for (const LinkSample& sample : link)
    if (!sample.to_device && !sample.both_ways && sample.bytes >= 16 * MiB)
      out_us_per_byte = sample.us / static_cast<double>(sample.bytes);
  planning->act([this] { return make_profile(); }, out_us_per_byte);
}

// Measures the link over memory of its own, up to an eighth of what there is; else it stays unknown. The link
// is idle.
void Session::Impl::probe_link(std::unique_lock<std::mutex>& lock) {
  const std::uint64_t bytes = std::clamp(pool.limit() / 8 / page * page, page, 128 * MiB);
  const auto address = temporaries.allocate(bytes);
  if (!address) return;
  Range& range = residency->open(*address, bytes, AllocationId::none, bytes);
  const tracker::Operand whole{AllocationId::none, *address, 0, bytes, Effect::scratch, true, 0, &range};
  std::vector<ChunkUse> uses;
  Status done = placement->place("the link probe", {&whole, 1}, uses, lock);
  if (done) done = probe_link_over(*address, bytes);
  if (!done) log::info("the link was not measured: {}", done.error().message);
  residency->close(range, {});
  temporaries.free(*address, bytes);
}

Status Session::Impl::probe_link_over(Address address, std::uint64_t bytes) {
  const auto host_memory = device.host_allocate(bytes);
  if (!host_memory) return host_memory.error();
  const auto samples = cupti::probe_link(device, out_stream, in_stream, {address, *host_memory, bytes});
  (void)device.host_free(*host_memory);
  if (!samples) return samples.error();
  for (const cupti::LinkSample& s : *samples)
    link.push_back({s.direction == cupti::LinkSample::Direction::in, s.bytes, s.microseconds, s.both});
  return Done{};
}

void Session::finish_profile() {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const bool wants_link =
      s.link.empty() && !s.config.report_folder.empty() && s.tracker.iterations().count() > 0;
  const bool idle = (s.profiler.measuring() || wants_link || s.trace) && s.idle_for_probe(lock);
  s.profiler.finish();
  if (idle && wants_link) s.probe_link(lock);
  s.recorder.finish();
  if (s.trace)
    if (const auto written = s.trace->write(s.config.trace_file); !written)
      log::error("POOCH_TRACE: {}", written.error().message);
  if (s.planning) s.planning->abandon();
}

Profile Session::Impl::make_profile() {
  Profile profile;
  profile.device = info.name;
  profile.device_bytes = info.total_bytes;
  profile.cap_bytes = limits.cap;
  profile.host_budget_bytes = limits.host_budget;
  profile.need_bytes = tracker.allocations().need_bytes();
  profile.policy = name(config.policy);
  profile.link = link;
  profiler.fill(profile);
  return profile;
}

Profile Session::profile() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->make_profile();
}

Summary Session::summary() const {
  const Impl& s = *impl_;
  const std::lock_guard lock(s.mutex);
  Summary summary;
  summary.device = s.info.name;
  summary.policy = name(s.config.policy);
  summary.cap_bytes = s.limits.cap;
  summary.host_budget_bytes = s.limits.host_budget;
  summary.peak_device_bytes = s.pool.peak();
  summary.peak_host_bytes = s.host.locked_bytes();
  summary.need_bytes = s.tracker.allocations().need_bytes();
  summary.need_managed_bytes = s.tracker.allocations().need_managed_bytes();
  summary.ops = s.tracker.ops();
  if (s.tracker.iterations().count() > 0) summary.iterations = s.tracker.iterations().count();
  summary.planned_iterations = s.executor->counts().planned_iterations;
  summary.plans_left = s.executor->counts().left;
  summary.replays = s.executor->counts().replays;
  summary.unplanned_evictions = s.executor->counts().unplanned;
  summary.evictions = s.residency->evictions();
  summary.bytes_out = s.device.counters().bytes_out;
  summary.bytes_in = s.device.counters().bytes_in;
  summary.vmm_calls = s.device.counters().vmm_calls;
  summary.host_waits = s.device.counters().host_waits;
  return summary;
}

}  // namespace pooch::runtime
