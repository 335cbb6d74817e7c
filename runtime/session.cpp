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
#include "runtime/handle_pool.h"
#include "runtime/host_arena.h"
#include "runtime/memory_limits.h"
#include "runtime/profiler.h"
#include "runtime/recorder.h"
#include "runtime/residency.h"
#include "runtime/stream_order.h"
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
        space(arena_.base, arena_.bytes) {}
  ~Impl();

  Status start();
  Status allocate_range(std::uint64_t bytes, std::optional<Address>& address,
                        std::unique_lock<std::mutex>& lock);
  Status gather_and_make_resident(Work& w, std::unique_lock<std::mutex>& lock);
  Status order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream);
  int launch(const Call& call, Work& w, FunctionRef<int()> real, std::unique_lock<std::mutex>& lock);
  void note_use(Work& w, StreamIndex stream, bool succeeded);
  void probe_link();
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
  AddressSpace space;
  StreamHandle out_stream{}, in_stream{};
  std::optional<Residency> residency;
  std::optional<Demand> demand;
  Profiler profiler{device, tracker, timer_choice(config.timer)};
  Recorder recorder;
  std::uint64_t live_bytes = 0;                  // managed allocations, rounded to pages
  std::atomic<std::uint64_t> occupied_bytes{0};  // occupied(), for queries
  std::atomic<bool> call_sites_wanted{false};
  std::uint64_t outside_bytes = 0;     // what passed-through allocations are charged
  std::uint64_t measured_outside = 0;  // what they took of the device when it was last asked
  std::uint64_t free_at_start = 0;     // device bytes free when the session opened
  std::uint64_t measured_peak = 0, passed_since_growth = 0;
  std::vector<LinkSample> link;
  std::uint64_t serial = 0;  // gatherings so far: the clock of staleness
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
  publish_call_sites();
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

Status Session::Impl::allocate_range(std::uint64_t bytes, std::optional<Address>& address,
                                     std::unique_lock<std::mutex>& lock) {
  address = space.allocate(bytes);
  if (address) return Done{};
  const auto forgotten = demand->forget_unused(lock);
  if (!forgotten) return forgotten.error();
  space.coalesce(*forgotten);
  address = space.allocate(bytes);
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
  if (const auto found = s.allocate_range(rounded, address, lock); !found) return found.error();
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
    const auto mark = s.order.launched(s.order.index(*stream));
    if (!mark) return mark.error();
    after.add(*mark);
  }
  const std::uint64_t rounded = round_up(gone->bytes, page);
  s.residency->close(*s.residency->find(address), after);
  s.remove_allocation(address);
  s.space.free(address, rounded);
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
  if (const auto made = s.demand->make_room(more, ++s.serial, lock); !made) return made.error();
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
    (void)s.demand->make_room(std::min(now - s.pool.outside(), s.pool.limit()), ++s.serial, lock);
  (void)s.pool.set_outside(s.outside_with(0));
  s.publish_occupied();
}

void Session::pass_through_failed(std::uint64_t bytes) {
  const std::lock_guard lock(impl_->mutex);
  impl_->outside_bytes -= pass_through_charge(bytes);
  (void)impl_->pool.set_outside(impl_->outside_with(0));
  impl_->publish_occupied();
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

Status Session::Impl::gather_and_make_resident(Work& w, std::unique_lock<std::mutex>& lock) {
  for (;;) {
    // A host wait lets other threads in: what was gathered before it no longer holds.
    const std::uint64_t gathering = ++serial;
    w.uses.clear();
    for (const tracker::Operand& o : w.op.operands)
      if (o.managed)
        residency->gather(*static_cast<Range*>(o.backing), o.offset, o.bytes, o.effect, gathering, w.uses);
    const std::uint64_t missing = Residency::missing(w.uses);
    if (missing <= pool.available()) {
      const auto resident = residency->make_resident(w.uses);
      if (resident || resident.error().code != ErrorCode::out_of_memory) return resident;
    }
    std::uint64_t together = 0;
    for (const ChunkUse& use : w.uses) together += use.chunk->bytes;
    if (together > pool.limit())
      return Error{ErrorCode::out_of_memory,
                   fmt::format("{} needs {} at once: the smallest cap that works is {} ({} MiB); it is {}",
                               w.op.description.function, format_bytes(together),
                               format_bytes(together + pool.outside()), (together + pool.outside()) / MiB,
                               format_bytes(limits.cap))};
    if (const auto room = demand->make_room(missing, gathering, lock); !room) {
      if (room.error().code != ErrorCode::out_of_memory) return room;
      return Error{ErrorCode::out_of_memory,
                   fmt::format("{} cannot have its operands on the device: {} (cap {}, host budget {})",
                               w.op.description.function, room.error().message, format_bytes(limits.cap),
                               format_bytes(limits.host_budget))};
    }
  }
}

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
  residency->used(w.uses, *mark, serial);
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
  Status ready = Done{};
  w.uses.clear();
  if (w.op.managed) ready = s.gather_and_make_resident(w, lock);
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
  const bool timed = s.profiler.timing();
  if (timed) s.profiler.begin(call.stream);
  const int status = s.launch(call, w, launch, lock);
  if (timed)
    s.profiler.end(call.stream, w.op, moved != s.device.counters().bytes_in + s.device.counters().bytes_out);
  s.note_use(w, stream, status == 0);
  if (status == 0) s.recorder.launched(call);
  return status;
}

bool Session::wants_call_sites() const {
  return impl_->call_sites_wanted.load(std::memory_order_relaxed);
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
  if (const auto retired = impl_->order.retire(stream); !retired)
    impl_->report_failure("recording an event", retired.error());
}

// Measures the link over a chunk whose content is dead; without one it stays unknown.
void Session::Impl::probe_link() {
  const Chunk* best = nullptr;
  for (const Chunk* chunk : residency->mapped())
    if (!chunk->live && chunk->state == ChunkState::resident && chunk->pins == 0 &&
        (best == nullptr || chunk->bytes > best->bytes))
      best = chunk;
  if (best == nullptr) return log::info("the link was not measured: no memory is free for it");
  const auto host_memory = device.host_allocate(best->bytes);
  if (!host_memory) return log::info("the link was not measured: {}", host_memory.error().message);
  const auto samples =
      cupti::probe_link(device, out_stream, in_stream, {best->address, *host_memory, best->bytes});
  (void)device.host_free(*host_memory);
  if (!samples) return log::info("the link was not measured: {}", samples.error().message);
  for (const cupti::LinkSample& s : *samples)
    link.push_back({s.direction == cupti::LinkSample::Direction::in, s.bytes, s.microseconds, s.both});
}

void Session::finish_profile() {
  Impl& s = *impl_;
  std::unique_lock lock(s.mutex);
  const auto blocked = s.order.host_blocked();
  const bool may_wait = blocked && !*blocked;
  if (s.profiler.measuring() && may_wait) {
    lock.unlock();
    (void)s.device.synchronize_all();
    lock.lock();
  }
  s.profiler.finish();
  if (may_wait && !s.config.report_folder.empty() && s.tracker.iterations().count() > 0) s.probe_link();
  s.recorder.finish();
}

Profile Session::profile() const {
  const Impl& s = *impl_;
  const std::lock_guard lock(s.mutex);
  Profile profile;
  profile.device = s.info.name;
  profile.device_bytes = s.info.total_bytes;
  profile.cap_bytes = s.limits.cap;
  profile.host_budget_bytes = s.limits.host_budget;
  profile.need_bytes = s.tracker.allocations().need_bytes();
  profile.policy = name(s.config.policy);
  profile.link = s.link;
  s.profiler.fill(profile);
  return profile;
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
  summary.evictions = s.residency->evictions();
  summary.bytes_out = s.device.counters().bytes_out;
  summary.bytes_in = s.device.counters().bytes_in;
  summary.vmm_calls = s.device.counters().vmm_calls;
  summary.host_waits = s.device.counters().host_waits;
  return summary;
}

}  // namespace pooch::runtime
