#include "runtime/session/session.h"

#include <algorithm>

#include "core/host_heap.h"
#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {
namespace {

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

Session::Impl::Impl(Setting settled, Device& raw_device)
    : setting(std::move(settled)),
      device(raw_device),
      watch(setting.config.watch_from_start),
      allocations(tracker, setting.arena.base),
      memory(device, setting.limits, setting.arena),
      observers{.profiler =
                    Profiler(device, tracker, timer_choice(setting.config.timer), setting.config.substitutes),
                .probes = DeviceProbes(device, memory, setting.limits.cap)} {}

Status Session::Impl::start() {
  const Config& config = setting.config;
  const Limits& limits = setting.limits;
  const bool lands = config.landing != LandingUse::off && setting.info.host_handles;
  if (const auto opened = memory.open(device, config, limits, lands); !opened) return opened;
  if (config.landing == LandingUse::on) land_from_the_start();
  const Verification::Parts proves{device,      memory.order,      *memory.residency,
                                   memory.host, *memory.placement, memory.temporaries};
  verification.emplace(config.verify, limits.host_budget, proves);
  const ExecutorParts parts{memory.order,       memory.pool,       *memory.residency,
                            *memory.departures, *memory.placement, memory.space,
                            memory.temporaries, tracker,           device,
                            *verification};
  executor.emplace(parts);
  remaking.emplace(parts, config.verify, limits.host_budget, proves);
  set_resorts();
  if (!watch.on()) tracker.look_away();
  publish_details();
  if (!config.trace_file.empty()) {
    auto timer = cupti::open_op_timer(device, cupti::TimerChoice::events);  // the profiler may hold CUPTI
    if (!timer) return timer.error();
    observers.trace = std::make_unique<Trace>(std::move(*timer), limits.cap);
    memory.residency->show_in(observers.trace.get());
    executor->show_in(observers.trace.get());
    remaking->show_in(observers.trace.get());
  }
  if (is_planned(config.policy) || !config.plan_file.empty()) {
    const std::uint64_t spare = reserve_beside_plans(limits.cap);
    auto source = PlanSource::open(
        config, {setting.info.name, limits.cap > spare ? limits.cap - spare : 0, limits.host_budget});
    if (!source) return source.error();
    planning.emplace(std::move(*source), config, memory.pool, *executor, observers.profiler, tracker);
  }
  observers.recorder.open(config.record_file, {setting.info.name, setting.info.total_bytes, limits.cap,
                                               limits.host_budget, std::string(name(config.policy))});
  return Done{};
}

// What the parts below ask of those above when memory is short.
void Session::Impl::set_resorts() {
  memory.placement->set_landing([this](Held& held) -> Result<bool> {
    if (const auto expected = expect_unforeseen(held); !expected) return expected.error();
    return memory.landing->maps();
  });
  memory.placement->set_before_leaving([this] { begin_watch(); });
  memory.placement->set_last_resort([this](Held& held) -> Result<bool> {
    const bool proof_given_up = remaking->give_up_memory();
    const bool given_up = verification->give_up_memory() || proof_given_up;
    if (!executor->aliased()) return given_up;
    log::info("alias mode ends for want of memory");
    if (const auto apart = executor->dismantle(held); !apart) return apart.error();
    return true;
  });
  memory.demand->ask(&*remaking);
  memory.streaming->ask(&*remaking);
  executor->set_before_plans([this](Held& held) { return remaking->make_all(held); });
}

Session::Impl::~Impl() {
  (void)device.synchronize_all();
  observers.profiler.trials().close();
  memory.close(device);
  hidden.small_buffers.close(device);
  (void)device.release(setting.arena.base, setting.arena.bytes);
}

Result<std::unique_ptr<Session>> Session::open(const Config& config, Device& device) {
  auto info = device.info();
  if (!info) return info.error();
  const auto free = device.free_bytes();
  if (!free) return free.error();
  const auto limits = settle_limits(config, *info, *free);
  if (!limits) return limits.error();
  const auto arena = Arena::reserve(device);
  if (!arena) return arena.error();
  auto impl = std::make_unique<Impl>(Setting{config, std::move(*info), *limits, *arena}, device);
  nvtx::open();
  if (const auto started = impl->start(); !started) return started.error();
  log::info("{}: cap {}, host budget {}, policy {}, addresses from {:#x}", impl->setting.info.name,
            format_bytes(limits->cap), format_bytes(limits->host_budget), name(config.policy),
            raw(arena->base));
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

// --- reports

bool Session::failed() const {
  return impl_->failures.failed();
}
bool Session::said_shortage() const {
  return impl_->failures.said_shortage();
}

// --- work

Status Session::Impl::order_stream(const std::vector<ChunkUse>& uses, StreamIndex stream) {
  for (const ChunkUse& use : uses)
    if (const auto followed = memory.order.follow(stream, use.chunk->before); !followed) return followed;
  return Done{};
}

void Session::Impl::note_use(Work& w, StreamIndex stream, bool succeeded) {
  const Mark mark = memory.residency->launched(w.uses, stream);
  remaking->note_launch(w.op, mark);
  if (succeeded) {
    tracker.launched(w.op);
    observers.profiler.launched();
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
  memory.residency->used(w.uses, mark, memory.placement->clock());
  if (!succeeded) {
    if (const auto fetched = memory.residency->make_resident(w.uses); !fetched)
      failures.fail("fetching an operand", fetched.error());
    return;
  }
  for (const ChunkUse& use : w.uses)
    if (use.changes)
      use.chunk->live =
          tracker::Tracker::live(w.op.operands[use.operand], use.chunk->offset, use.chunk->occupied);
}

// The call was launched, and its operands are still mapped.
void Session::Impl::try_substitute(const Call& call, tracker::Op& op) {
  const bool planned = planning && (setting.config.policy_chosen || near_short(occupied()));
  const bool sizes_recur = tracker.iterations().likeness() == tracker::Likeness::exact;
  const bool wanted = sizes_recur && (planned || !setting.config.report_folder.empty());
  const auto how =
      wanted && op.step && observers.profiler.trials().working() ? (*call.substitute)() : std::nullopt;
  if (!how) return;
  tracker::SubstituteOperands& at = op.description.substitute;
  at.known = true;
  const auto find = [&](std::uint8_t& operand, std::uint32_t access) {
    const auto found = std::find_if(op.operands.begin(), op.operands.end(), [&](const tracker::Operand& o) {
      return o.base + o.offset == call.accesses[access].address;
    });
    operand = static_cast<std::uint8_t>(found - op.operands.begin());
    at.known = at.known && found != op.operands.end();
  };
  const auto& o = how->operands;
  find(at.at.x, o.x), find(at.at.y, o.y), find(at.at.scale, o.scale);
  find(at.at.bias, o.bias), find(at.at.mean, o.mean), find(at.at.inverse, o.inverse);
  SubstituteTrials& trials = observers.profiler.trials();
  if (at.known && trials.wants(op.local_key)) trials.launched(op.local_key, *how, call.accesses, call.stream);
}

// Everything that has to come before the launch. Error: the call must not be made.
Status Session::Impl::make_ready(const Call& call, Work& w, StreamIndex stream, Executor::Readied& readied,
                                 Held& held) {
  if (call.unforeseen) hidden.unforeseen.count();
  if (call.unforeseen || hidden.unforeseen.tables_missed())
    if (const auto expected = expect_unforeseen(held); !expected) return expected;
  const std::uint64_t waits_before = memory.order.own_waits();
  std::vector<Wanted> wanted;
  do {
    if (const auto remade = remaking->before(call, w.op, wanted, held); !remade) return remade;
    const auto found = executor->before(w.op, call.stream, held);
    if (!found) return found.error();
    readied = *found;
    w.uses.clear();
    if (w.op.managed)
      if (const auto placed =
              memory.placement->place(call.function, w.op.operands, w.uses, held,
                                      call.own ? Placement::TooLarge::fails : Placement::TooLarge::lands);
          !placed)
        return placed;
  } while (executor->overtaken(readied) || remaking->lacks(call, w.op));
  if (const auto there = Residency::has_content(w.uses, /*remaking=*/false); !there) return there;
  w.ran_dry = streams() && remaking->ran_dry(w.uses, waits_before);
  if (const auto ordered = order_stream(w.uses, stream); !ordered) return ordered;
  const bool over_link = w.op.managed && memory.placement->over_link();
  if (over_link) hidden.unforeseen.came(tracker.iterations().count());
  if (!call.unforeseen && !over_link) return Done{};
  w.entered = stream;
  return memory.landing->enter(stream);
}

int Session::submit(const Call& call, FunctionRef<int()> launch, Refusal refusal) {
  if (host_heap_spent()) return refusal.out_of_memory;
  Impl& s = *impl_;
  const ThreadsWork work(&s);
  Work& w = *work;
  Held held(s.mutex);
  if (s.small_buffers_due() && !call.trial) s.scan_small_buffers(*this, call.stream, held);
  s.tracker.resolve(call, w.op);
  if (s.memory.residency->doubt()) s.failures.fail(call.function, *s.memory.residency->doubt());
  if (s.failures.failed() && (w.op.managed || call.unforeseen)) return refusal.failed;
  const Unforeseen::UnderWay under_way(s.hidden.unforeseen, call.unforeseen, s.tracker.iterations().count());
  if (w.op.operands.empty()) return s.launch_without_operands(call, launch, refusal, held);
  const StreamIndex stream = s.memory.order.index(call.stream);
  Executor::Readied readied;
  if (const auto ready = s.make_ready(call, w, stream, readied, held); !ready) {
    held.give_up();
    return s.refuse(call, ready.error(), refusal);
  }
  const std::optional<std::int32_t> position = readied.position;
  const bool planned = position || readied.passes_by;
  const bool kept = position && s.executor->wants_copy(*position) && call.keep != nullptr && !call.blocks &&
                    !s.uses_pinned(w.op);
  const Trace::Number shown = s.show(call, w, stream, position);
  const auto timed =
      s.observers.profiler.timing() ? std::optional(s.observers.profiler.begin(call.stream)) : std::nullopt;
  // Events of another timer would be in the time that is measured for plans.
  const auto costs = s.remaking->begun(call, w.op, !planned && !timed && s.streams());
  const int status = s.launch(call, w, launch, held);
  s.remaking->ended(costs, call);
  if (s.observers.trace) s.observers.trace->end(shown);
  const std::uint64_t moves =
      s.device.counters().moves() + s.memory.order.waits_for_own() + s.observers.profiler.trials().passes();
  const bool disturbed = std::exchange(s.observers.moves_at_launch, moves) != moves;  // since the op before
  if (timed) s.observers.profiler.end(*timed, call.stream, w.op, disturbed);
  if (status == 0 && call.substitute != nullptr && s.observers.profiler.describing())
    s.try_substitute(call, w.op);
  // While a call blocks, or the device has no memory for it, another op may take its position.
  if (kept && status == 0 && !s.executor->overtaken(readied))
    s.executor->keep(*position, call, w.op, (*call.keep)());
  s.note_use(w, stream, status == 0);
  if (w.entered) s.memory.landing->launched(stream);
  if (status != 0) s.remaking->failed(w.op);
  if (status != 0) return status;
  s.note_small_buffers(call, w.op);
  if (position)
    if (const auto acted = s.executor->after(*position, w.op); !acted)
      s.failures.report("evicting", acted.error(), "it stays on the device");
  s.move_ahead(call, w, planned, timed.has_value(), held);
  s.observers.recorder.launched(call);
  s.end_landing();
  s.plan(held);
  s.show_live();
  return status;
}

// An op was launched: memory moves ahead of the next ones, unless a plan does that. What is timed is not to
// be disturbed by more than it needs itself.
void Session::Impl::move_ahead(const Call& call, const Work& w, bool planned, bool timed, Held& held) {
  // As long as nothing was ever short, nobody need know what comes.
  if (setting.config.policy == Policy::keep || memory.placement->fallbacks() == 0) return;
  if (planned || !streams()) {
    remaking->look_away();
    return memory.foresight.lose_track();
  }
  memory.streaming->passed(w.op, w.uses);
  remaking->launched(call, w.op, w.uses, w.ran_dry);
  remaking->allow(!timed && memory.foresight.foresees());
  if (timed) return;
  if (const auto moved = memory.streaming->move_ahead(held); !moved)
    failures.report("moving memory ahead of need", moved.error(), "it is moved when it is needed");
}

bool Session::wants_details() const {
  return impl_->observers.details_wanted.load(std::memory_order_relaxed);
}

bool Session::wants_call_sites() const {
  return impl_->setting.config.call_sites && wants_details();
}

// The op as a slice of the timeline.
Trace::Number Session::Impl::show(const Call& call, const Work& w, StreamIndex stream,
                                  std::optional<std::int32_t> position) {
  if (!observers.trace) return Trace::none;
  const auto where = tracker.iterations().where();
  if (where && where->start == tracker.steps() && w.op.step)
    observers.trace->iteration(phase_id(tracker.iterations().phase(where->phase)));
  TraceSlice slice{TraceTrack::compute, call.function, call.stream, position.value_or(-1), 0, 0, {}};
  for (const ChunkUse& use : w.uses) {
    Chunk& chunk = *use.chunk;
    if (chunk.flow != 0) slice.flow = std::exchange(chunk.flow, 0);
    for (const Mark& mark : chunk.before) {
      if (mark.stream == stream) continue;
      const auto finished = memory.order.finished(mark);
      if (finished && !*finished) slice.cause = "copy";
    }
  }
  observers.trace->memory(memory.pool.in_use());
  return observers.trace->begin(slice);
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
  impl_->memory.order.note_host_blocking(impl_->memory.order.index(stream));
}

void Session::stream_destroyed(StreamHandle stream) {
  Held held(impl_->mutex);
  // Calls that were made in it cannot be repeated there any more.
  if (const auto made = impl_->remaking->make_all(held); !made)
    impl_->failures.report("making dropped memory again", made.error(), "who needs it is refused");
  impl_->memory.space.disown(stream);
  impl_->observers.profiler.stream_destroyed(stream);
  impl_->memory.order.retire(stream);
}

}  // namespace pooch::runtime
