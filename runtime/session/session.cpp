#include "runtime/session/session.h"

#include <algorithm>

#include "core/host_heap.h"
#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {
namespace {

constexpr std::uint64_t largest_arena = std::uint64_t{16} << 40;
constexpr std::uint64_t smallest_arena = 64 * GiB;

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

}  // namespace

Session::Impl::Impl(const Config& config_, Device& raw_device, DeviceInfo info_, Limits limits_, Arena arena)
    : config(config_),
      info(std::move(info_)),
      limits(limits_),
      arena_span(arena),
      device(raw_device),
      watch(config.watch_from_start),
      order(device),
      pool(device, limits.cap),
      host(device, order, limits.host_budget),
      // Who runs beyond the end of an allocation finds no other one there. The first page is left out: an
      // address whose lower half is small looks like two integers (address_table.h).
      space(arena.base + page, arena.bytes - arena.bytes / 16 - page, page),
      temporaries(arena.base + (arena.bytes - arena.bytes / 16), arena.bytes / 16),
      profiler(device, tracker, timer_choice(config.timer)) {}

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
  if (config.check_copies) residency->check_copies();
  const bool alias = config.backing == BackingUse::alias;
  const bool lands = config.landing != LandingUse::off && info.host_handles && !alias;
  landing.emplace(device, order, host, *residency, lands ? Landing::Mapping::yes : Landing::Mapping::no);
  if (config.landing == LandingUse::on) land_from_the_start();
  demand.emplace(device, order, pool, host, *residency, config.policy);
  departures.emplace(device, order, pool, *residency);
  placement.emplace(limits, pool, *residency, *departures, *demand);
  verification.emplace(config.verify, limits.host_budget,
                       Verification::Parts{device, order, *residency, host, *placement, temporaries});
  executor.emplace(Executor::Parts{order, pool, *residency, *departures, *placement, temporaries, tracker,
                                   device, *verification});
  placement->set_before_leaving([this] { begin_watch(); });
  pool.set_recount([this] {
    ask_outside();
    return outside_with(0);
  });
  placement->set_recount([this] { return outside_is_less(); });
  placement->set_last_resort([this](Held& held) -> Result<bool> {
    const bool given_up = verification->give_up_memory();
    if (!executor->aliased()) return given_up;
    log::info("alias mode ends for want of memory");
    if (const auto apart = executor->dismantle(held); !apart) return apart.error();
    return true;
  });
  if (!watch.on()) tracker.look_away();
  publish_details();
  if (!config.trace_file.empty()) {
    auto timer = cupti::open_op_timer(device, cupti::TimerChoice::events);  // the profiler may hold CUPTI
    if (!timer) return timer.error();
    trace = std::make_unique<Trace>(std::move(*timer), limits.cap);
    residency->show_in(trace.get());
    executor->show_in(trace.get());
  }
  if (is_planned(config.policy) || !config.plan_file.empty()) {
    const std::uint64_t spare = HandlePool::reserve(limits.cap);
    auto source = PlanSource::open(
        config, {info.name, limits.cap > spare ? limits.cap - spare : 0, limits.host_budget});
    if (!source) return source.error();
    planning.emplace(std::move(*source), config, limits.cap / 96, pool, *executor, profiler, tracker);
  }
  recorder.open(config.record_file, {info.name, info.total_bytes, limits.cap, limits.host_budget,
                                     std::string(name(config.policy))});
  return Done{};
}

Session::Impl::~Impl() {
  (void)device.synchronize_all();
  if (residency && residency->landing() != nullptr) (void)residency->unmap_landed();
  if (residency) residency->land_with(nullptr);
  if (residency)
    while (!residency->mapped().empty())
      if (!residency->finish_eviction(*residency->mapped().back())) break;
  for (const StreamHandle stream : {out_stream, in_stream})
    if (stream != StreamHandle{}) (void)device.destroy_stream(stream);
  if (scan_memory != nullptr) (void)device.host_free(scan_memory);
  (void)device.release(arena_span.base, arena_span.bytes);
}

Result<std::unique_ptr<Session>> Session::open(const Config& config, Device& device) {
  auto info = device.info();
  if (!info) return info.error();
  const auto free = device.free_bytes();
  if (!free) return free.error();
  const auto limits = settle_limits(config, *info, *free);
  if (!limits) return limits.error();
  const auto arena = reserve_arena(device);
  if (!arena) return arena.error();
  auto impl = std::make_unique<Impl>(config, device, *info, *limits, *arena);
  nvtx::open();
  if (const auto started = impl->start(); !started) return started.error();
  log::info("{}: cap {}, host budget {}, policy {}, addresses from {:#x}", info->name,
            format_bytes(limits->cap), format_bytes(limits->host_budget), name(config.policy),
            raw(arena->base));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

// --- reports

bool Session::failed() const {
  return impl_->failed();
}

void Session::Impl::report_failure(std::string_view where, const Error& why, std::string_view consequence) {
  if (failure_reported.exchange(true)) return;
  log::warn("{}: {}; {}", where, why.message, consequence);
}

void Session::Impl::fail(std::string_view where, const Error& why) {
  if (failure.exchange(true)) return;
  log::failure(fmt::format(
      "{}: {}; every call that uses device memory fails from now on, rather than read a doubtful value",
      where, why.message));
}

// Out of memory is the program's to handle: it may free something and try again. After anything else nobody
// can tell what it does instead, with what result: it ends here.
int Session::Impl::refuse(std::string_view where, const Error& why, const Refusal& refusal) {
  if (failed()) return refusal.failed;  // said already; this call was on its way then
  if (why.code == ErrorCode::out_of_memory && !residency->doubt()) {
    const bool said = [&] {  // by another thread
      const Held held(mutex);
      return std::exchange(last_shortage, why.message) == why.message;
    }();
    if (!said) log::failure(why.message);
    return refusal.out_of_memory;
  }
  fail(where, why);
  return refusal.failed;
}

void Session::Impl::report_full(std::uint64_t bytes) {
  if (full_reported.exchange(true)) return;
  log::warn("out of memory: {} more do not fit beside {} in use; the cap is {}, the host budget {}",
            format_bytes(bytes), format_bytes(occupied()), format_bytes(limits.cap),
            format_bytes(limits.host_budget));
}

void Session::Impl::report_too_large(std::uint64_t bytes) {
  if (too_large_reported.exchange(true)) return;
  log::warn("out of memory: one allocation of {} is more than the cap of {}; POOCH_MEMORY_INFO=all grants it",
            format_bytes(bytes), format_bytes(limits.cap));
}

// --- work

Status Session::Impl::order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream) {
  for (const ChunkUse& use : uses)
    if (const auto followed = order.follow(stream, use.chunk->before); !followed) return followed;
  return Done{};
}

void Session::Impl::note_use(Work& w, StreamIndex stream, bool succeeded) {
  const Mark mark = order.launched(stream);
  if (succeeded) {
    tracker.launched(w.op);
    profiler.launched();
    publish_details();
  } else {
    // What is on the device may have been written to by a part of the call. What has its content on the host
    // alone keeps that: the program is told of the failure, and what it would have overwritten is still
    // wanted.
    for (ChunkUse& use : w.uses) {
      use.changes &= !use.chunk->stale && !use.chunk->expendable;
      use.needs_content = true;
    }
  }
  residency->used(w.uses, mark, placement->clock());
  if (!succeeded) {
    if (const auto fetched = residency->make_resident(w.uses); !fetched)
      fail("fetching an operand", fetched.error());
    return;
  }
  for (const ChunkUse& use : w.uses)
    if (use.changes)
      use.chunk->live =
          tracker::Tracker::live(w.op.operands[use.operand], use.chunk->offset, use.chunk->occupied);
}

// Everything that has to come before the launch. Error: the call must not be made.
Status Session::Impl::make_ready(const Call& call, Work& w, StreamIndex stream, Executor::Readied& readied,
                                 Held& held) {
  unforeseen_ops += call.unforeseen ? 1 : 0;
  if (call.unforeseen || tables_missed)
    if (const auto expected = expect_unforeseen(held); !expected) return expected;
  do {
    const auto found = executor->before(w.op, call.stream, held);
    if (!found) return found.error();
    readied = *found;
    w.uses.clear();
    if (w.op.managed)
      if (const auto placed = placement->place(call.function, w.op.operands, w.uses, held); !placed)
        return placed;
  } while (executor->overtaken(readied));
  if (const auto there = Residency::has_content(w.uses, /*remaking=*/false); !there) return there;
  if (const auto ordered = order_stream(w.uses, stream); !ordered) return ordered;
  if (!call.unforeseen) return Done{};
  w.entered = stream;
  return landing->enter(stream);
}

int Session::submit(const Call& call, FunctionRef<int()> launch, Refusal refusal) {
  if (host_heap_spent()) return refusal.out_of_memory;
  Impl& s = *impl_;
  const ThreadsWork work(&s);
  Work& w = *work;
  Held held(s.mutex);
  if (s.small_buffers_due() && !call.trial) s.scan_small_buffers(*this, call.stream, held);
  s.tracker.resolve(call, w.op);
  if (s.residency->doubt()) s.fail(call.function, *s.residency->doubt());
  if (s.failed() && (w.op.managed || call.unforeseen)) return refusal.failed;
  const Impl::UnforeseenUnderWay under_way(s, call.unforeseen);
  if (w.op.operands.empty()) return s.launch_without_operands(call, launch, refusal, held);
  const StreamIndex stream = s.order.index(call.stream);
  Executor::Readied readied;
  if (const auto ready = s.make_ready(call, w, stream, readied, held); !ready) {
    held.give_up();
    return s.refuse(call.function, ready.error(), refusal);
  }
  const std::optional<std::int32_t> position = readied.position;
  const bool kept = position && s.executor->wants_copy(*position) && call.keep != nullptr && !call.blocks &&
                    !s.uses_pinned(w.op);
  const Trace::Number shown = s.show(call, w, stream, position);
  const auto timed = s.profiler.timing() ? std::optional(s.profiler.begin(call.stream)) : std::nullopt;
  const int status = s.launch(call, w, launch, held);
  if (s.trace) s.trace->end(shown);
  const std::uint64_t moves = s.device.counters().moves();
  const bool disturbed = std::exchange(s.moves_at_launch, moves) != moves;  // since the op before
  if (timed) s.profiler.end(*timed, call.stream, w.op, disturbed);
  // While a call blocks, or the device has no memory for it, another op may take its position.
  if (kept && status == 0 && !s.executor->overtaken(readied))
    s.executor->keep(*position, call, w.op, (*call.keep)());
  s.note_use(w, stream, status == 0);
  if (call.unforeseen) s.landing->launched(stream);
  if (status != 0) return status;
  s.note_small_buffers(call, w.op);
  if (position)
    if (const auto acted = s.executor->after(*position, w.op); !acted)
      s.report_failure("evicting", acted.error(), "it stays on the device");
  s.recorder.launched(call);
  s.end_landing();
  s.plan(held);
  return status;
}

bool Session::wants_details() const {
  return impl_->details_wanted.load(std::memory_order_relaxed);
}

bool Session::wants_call_sites() const {
  return impl_->config.call_sites && wants_details();
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
  trace->memory(pool.in_use());
  return trace->begin(slice);
}

// A call in which the host waits must not keep other threads out; what it uses stays where it is.
int Session::Impl::launch(const Call& call, Work& w, FunctionRef<int()> real, Held& held) {
  w.launch = &held;
  if (!call.blocks) {
    const int status = real();
    w.launch = nullptr;
    return status;
  }
  for (const ChunkUse& use : w.uses) ++use.chunk->pins;
  const int status = held.released(real);
  w.launch = nullptr;
  for (const ChunkUse& use : w.uses) --use.chunk->pins;
  return status;
}

void Session::note_host_blocking(StreamHandle stream) {
  const Held held(impl_->mutex);
  impl_->order.note_host_blocking(impl_->order.index(stream));
}

void Session::stream_destroyed(StreamHandle stream) {
  const Held held(impl_->mutex);
  impl_->space.disown(stream);
  impl_->profiler.stream_destroyed(stream);
  impl_->order.retire(stream);
}

}  // namespace pooch::runtime
