#include "runtime/execution/executor.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/memory/landing.h"

namespace pooch::runtime {

// --- plans

Status Executor::adopt(tracker::PhaseIndex phase, const Plan& plan, const KnownPhase& known,
                       double out_us_per_byte, Held& held) {
  const Turn::Taken turn = turn_.take(held);
  auto script = Script::compile(plan, known, out_us_per_byte);
  if (!script) return script.error();
  Adopted adopted{std::make_unique<const Script>(std::move(*script)),
                  known,
                  plan.backing == Backing::alias,
                  0,
                  {},
                  {},
                  out_us_per_byte,
                  {}};
  begin_trust(phase, adopted);
  // The old one may be what the layout is for.
  if (scripts_.contains(phase))
    if (const auto apart = dismantle(held); !apart) return apart;
  if (script_ != nullptr && script_ == script_of(phase))
    if (const auto left = leave(held); !left) return left;
  const Script& taken = *adopted.script;
  Adopted& place = scripts_[phase];
  if (place.script != nullptr) replaced_.push_back(std::move(place.script));
  place = std::move(adopted);
  if (watched_ == phase) give_up_watch();
  clock_.forget(phase);
  return prepare_verification(taken, held);
}

void Executor::refresh(tracker::PhaseIndex phase, const KnownPhase& known) {
  // A layout that exists refers to what it was made from.
  const auto found = scripts_.find(phase);
  if (found != scripts_.end() && !alias_.built()) found->second.known = known;
}

const Script* Executor::script_of(tracker::PhaseIndex phase) const {
  const auto found = scripts_.find(phase);
  return found == scripts_.end() ? nullptr : found->second.script.get();
}

void Executor::enter(const tracker::Iterations::Where& where, const Script& script, StreamHandle stream) {
  const tracker::StepIndex start = where.start;
  fallbacks_before_ = parts_.placement.fallbacks() - counts_.unplanned;
  asked_before_ = parts_.placement.asked_bytes();
  nvtx_iterations_.begin(script.plan().phase);
  // Every point may be asked for, and exactly.
  parts_.order.set_eager(true);
  if (!alias_.built()) parts_.pool.use_units();
  script_ = &script;
  ++changes_;
  start_ = start;
  position_ = static_cast<std::int32_t>(parts_.tracker.steps() - start);
  next_action_ = 0;
  next_replay_ = 0;
  dropped_ = 0;
  maps_.assign(script.maps().size(), {});
  kept_.clear();
  pending_.clear();
  slot_ranges_.resize(script.slots().size(), nullptr);
  parts_.verification.begin(followed()->trust, script.plan().host_bytes);
  // The phase turned out to be another one than was expected: what its ops so far touched.
  const tracker::StepIndex now = parts_.tracker.steps();
  from_the_start_ = now == start;
  if (from_the_start_) {
    clock_.begin(where.phase, stream);
    begin_watch(where.phase, *followed(), stream);
  } else {
    clock_.interrupt();
  }
  for (tracker::StepIndex step = start; step < now; ++step) {
    if (!parts_.tracker.log().has(step)) continue;
    bind(static_cast<std::int32_t>(step - start), parts_.tracker.log().operands(step));
  }
}

void Executor::bind(std::int32_t position, std::span<const tracker::Operand> operands) {
  for (const Script::Touch& touch : script_->first_touch(position)) {
    const tracker::Operand& operand = operands[touch.operand];
    // Of an op in the past: its allocation may be gone.
    const tracker::Allocation* allocation = parts_.tracker.allocations().starting_at(operand.base);
    if (!operand.managed || allocation == nullptr || allocation->id != operand.allocation) continue;
    maps_[touch.map] = {static_cast<Range*>(operand.backing), operand.allocation};
    for (Chunk& chunk : maps_[touch.map].range->chunks) chunk.name = script_->names()[touch.map];
  }
}

// What was dropped is made again while all that it needs is still there.
Status Executor::leave(Held& held) {
  if (trace_ != nullptr) trace_->instant("plan left");
  nvtx::mark("plan left");
  ++counts_.left;
  log::info("the plan of phase {} is left at op {}", script_->plan().phase, parts_.tracker.steps() - start_);
  pending_.clear();
  if (waits_.watching()) give_up_watch();
  if (const auto apart = dismantle(held); !apart) return apart;
  const Script* const script = script_;
  for (std::uint32_t i = next_replay_; i < script->replays().size() && dropped_ > 0; ++i) {
    const auto kept = kept_.find(script->replays()[i].position);
    if (kept == kept_.end()) continue;
    if (const auto made = replay(i, kept->second.stream, held); !made) return made;
    if (script_ != script) return Done{};  // another thread has left it
  }
  if (const auto ended = end_all_slots(); !ended) return ended;
  stop_following();
  return Done{};
}

void Executor::stop_following() {
  counts_.unplanned = parts_.placement.fallbacks() - fallbacks_before_;
  script_ = nullptr;
  ++changes_;
  waits_.end();
  parts_.verification.end();
  nvtx_iterations_.end();
}

void Executor::finish() {
  if (from_the_start_) {
    ++counts_.planned_iterations;
    counts_.aliased_iterations += alias_.built();
    clock_.complete();
    note_shortage();
  }
  if (trace_ != nullptr) trace_->iteration_planned();
  pending_.clear();
  stop_following();
}

std::optional<PlanPace> Executor::pace() {
  std::optional<PlanPace> most;
  double most_ms = -1;
  for (const auto& [phase, adopted] : scripts_) {
    const Plan& plan = adopted.script->plan();
    const auto actual = clock_.median_ms(phase);
    const double all_ms =
        actual ? *actual * static_cast<double>(parts_.tracker.iterations().phase(phase).seen) : 0;
    if (all_ms <= most_ms) continue;
    most_ms = all_ms;
    most = PlanPace{plan.predicted_ms, actual, plan.peak, planned_peak_};
  }
  return planned_peak_ == 0 ? std::nullopt : most;
}

// --- ops

Result<Executor::Readied> Executor::before(const tracker::Op& op, StreamHandle stream, Held& held) {
  Readied readied;
  if (!scripts_.empty()) {
    const Turn::Taken turn = turn_.take(held);
    const auto position = lead_up_to(op, stream, held);
    if (!position) return position.error();
    readied.position = *position;
  }
  readied.ops = parts_.tracker.ops();
  readied.changes = changes_;
  return readied;
}

bool Executor::overtaken(const Readied& readied) const {
  return !scripts_.empty() && (readied.ops != parts_.tracker.ops() || readied.changes != changes_);
}

Result<std::optional<std::int32_t>> Executor::lead_up_to(const tracker::Op& op, StreamHandle stream,
                                                         Held& held) {
  using Position = std::optional<std::int32_t>;
  if (const auto compared = settle_comparisons(held); !compared) return compared.error();
  if (!op.step) {
    if (dropped_ > 0 && touches_dropped(op.operands))
      if (const auto left = leave(held); !left) return left.error();
    const auto position = script_ == nullptr ? 0 : static_cast<std::int32_t>(parts_.tracker.steps() - start_);
    if (const auto admitted = admit(position, op.operands, held); !admitted) return admitted.error();
    return Position{};
  }
  for (;;) {
    const auto where = parts_.tracker.expect(op);
    const Script* const wanted = where ? script_of(where->phase) : nullptr;
    if (script_ != nullptr && (wanted != script_ || where->start != start_)) {
      if (const auto left = leave(held); !left) return left.error();
      continue;  // a host wait may have let other ops in
    }
    const tracker::StepIndex steps = parts_.tracker.steps();
    if (script_ == nullptr)
      if (const auto settled = settle_mappings(wanted, held); !settled) return settled.error();
    if (parts_.tracker.steps() != steps) continue;
    if (wanted == nullptr) {
      clock_.interrupt();
      return Position{};
    }
    if (script_ == nullptr && learn(where->phase)) continue;
    if (script_ == nullptr)
      if (const auto prepared = prepare_verification(*wanted, held); !prepared) return prepared.error();
    if (parts_.tracker.steps() != steps) continue;
    if (script_ == nullptr) enter(*where, *wanted, stream);
    const auto position = static_cast<std::int32_t>(parts_.tracker.steps() - start_);
    if (position > position_ + 1) {
      // An op came in between while another one blocked: nothing was done ahead of it.
      if (const auto left = leave(held); !left) return left.error();
      continue;
    }
    const tracker::StepIndex now = parts_.tracker.steps();
    if (const auto acted = act_before(position, op, stream, held); !acted) return acted.error();
    if (parts_.tracker.steps() != now || script_ != wanted) continue;
    note_needed(op.operands, stream);
    return Position{position};
  }
}

Status Executor::act_before(std::int32_t position, const tracker::Op& op, StreamHandle stream, Held& held) {
  if (position_ != position) position_ = position, next_action_ = 0;
  const Script* const script = script_;
  const auto actions = script->before(position);
  while (script_ == script && position_ == position && next_action_ < actions.size()) {
    const ScriptAction action = actions[next_action_];
    if (action.kind == PlanAction::Kind::prefetch) {
      ++next_action_;
      pending_.push_back(action.subject);
      if (const auto fetched = fetch_pending({}, held); !fetched) return fetched;
    } else {
      fetch_refused(script->replays()[action.subject]);
      // One that fails is tried again: by the same op, where the program repeats it, or when the plan is
      // left.
      if (const auto made = replay(action.subject, stream, held); !made) return made;
      if (script_ != script) return Done{};
      ++next_action_;
      next_replay_ = action.subject + 1;
    }
  }
  if (const auto ended = end_stand_ins(); !ended) return ended;
  // Memory that came free since an earlier op goes to prefetches first.
  if (const auto fetched = fetch_pending(op.operands, held); !fetched) return fetched;
  return admit(position, op.operands, held);
}

bool Executor::awaits_fetch(std::span<const tracker::Operand> operands) const {
  return std::any_of(pending_.begin(), pending_.end(), [&](std::uint32_t map) {
    return std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& operand) {
      return operand.allocation == maps_[map].allocation;
    });
  });
}

// In the plan's order: a later prefetch must not take the memory of an earlier one. Piece by piece, as memory
// comes free, so that the link is not idle while the rest is waited for.
Status Executor::fetch_pending(std::span<const tracker::Operand> awaited, Held& held) {
  const Script* const script = script_;
  while (!pending_.empty()) {
    const std::uint32_t map = pending_.front();
    if (const auto fetched = fetch_aliased(map, position_, held); !fetched) return fetched;
    if (script_ != script) return Done{};  // another thread's op was its last
    const std::uint64_t bytes = gather_missing(maps_[map]);
    if (uses_.empty()) {
      if (!pending_.empty() && pending_.front() == map) pending_.pop_front();
      continue;
    }
    if (Landing* const landing = parts_.residency.landing(); landing != nullptr) {
      const auto waited = landing->await_untouched(uses_, Landing::Patience::none, held);
      if (!waited) return waited.error().code == ErrorCode::out_of_memory ? Status(Done{}) : waited.error();
      if (*waited) continue;
    }
    if (const auto taken = parts_.departures.take_matching(uses_); !taken) return taken;
    const auto reclaimed = parts_.departures.reclaim(bytes, Departures::Wait::no, held);
    if (!reclaimed) return reclaimed.error();
    const std::uint64_t first_bytes = uses_.front().chunk->bytes;
    std::uint64_t fits = bytes;
    for (; !uses_.empty() && fits > parts_.pool.available(); uses_.pop_back())
      fits -= uses_.back().chunk->bytes;
    if (!uses_.empty()) {
      if (const auto fetched = fetch(uses_, map); !fetched) return fetched;
      if (uses_.front().chunk->state == ChunkState::evicted) return Done{};  // refused: Demand's business
    } else {
      if (!awaits_fetch(awaited)) return Done{};
      const auto came = parts_.departures.reclaim(first_bytes, Departures::Wait::yes, held);
      if (!came) return came.error();
      if (!*came) return Done{};  // the op itself asks Demand
    }
  }
  return Done{};
}

// Lists the chunks that are not on the device in `uses_`; their bytes.
std::uint64_t Executor::gather_missing(const Bound& bound) {
  uses_.clear();
  std::uint64_t bytes = 0;
  if (bound.range == nullptr) return 0;
  for (Chunk& chunk : bound.range->chunks) {
    if (!chunk.frames.empty()) continue;
    if (chunk.state == ChunkState::evicting && !bound.dropped) parts_.residency.take_back(chunk);
    if (chunk.state != ChunkState::evicted) continue;
    uses_.push_back({&chunk, true, false});
    bytes += chunk.bytes;
  }
  return bytes;
}

Status Executor::fetch(const std::vector<ChunkUse>& uses, std::uint32_t map) {
  const nvtx::Range range(nvtx::Category::prefetch, script_->names()[map]);
  const auto resident = parts_.residency.make_resident(uses);
  if (!resident && resident.error().code != ErrorCode::out_of_memory) return resident;
  const std::uint64_t now = parts_.placement.tick();
  for (const ChunkUse& use : uses) use.chunk->last_use = now;
  waits_.fetched(map, parts_.order.handle(parts_.residency.in_stream()));
  return Done{};
}

void Executor::keep(std::int32_t position, const Call& call, const tracker::Op& op,
                    std::unique_ptr<Replay> replay) {
  if (replay == nullptr) return;
  Kept kept;
  kept.replay = std::move(replay);
  kept.operands = op.operands;
  kept.stream = call.stream;
  kept.function = call.function;
  for (const Access& access : call.accesses) {
    kept.accesses.push_back(access.address);
    const auto same = [&](const tracker::Operand& o) { return o.base + o.offset == access.address; };
    const auto found = std::find_if(op.operands.begin(), op.operands.end(), same);
    kept.operand_of.push_back(static_cast<std::uint32_t>(found - op.operands.begin()));
  }
  kept_.insert_or_assign(position, std::move(kept));
}

Status Executor::after(std::int32_t position, const tracker::Op& op) {
  if (script_ == nullptr || start_ + static_cast<std::uint64_t>(position) + 1 != parts_.tracker.steps())
    return Done{};
  bind(position, op.operands);
  planned_peak_ = std::max(planned_peak_, parts_.pool.in_use());
  Status outcome = Done{};
  for (const ScriptAction& action : script_->after(position)) {
    const Status done = action.kind == PlanAction::Kind::evict ? evict(action.subject) : drop(action.subject);
    if (!done && outcome) outcome = done;
  }
  if (position + 1 == script_->positions()) finish();
  return outcome;
}

Status Executor::evict(std::uint32_t map) {
  const Bound& bound = maps_[map];
  if (bound.range == nullptr) return Done{};
  const nvtx::Range range(nvtx::Category::evict, script_->names()[map]);
  for (Chunk& chunk : bound.range->chunks) {
    const ScriptMap& planned = script_->maps()[map];
    if (planned.of == MapClass::swap && chunk.offset + chunk.occupied > planned.moved) break;
    if (chunk.state != ChunkState::resident || chunk.pins > 0 || chunk.stale || chunk.occupied == 0) continue;
    if (!chunk.frames.empty()) {
      // Where there is no room on the host, whoever comes next to a frame finds it occupied: see `admit`.
      const auto saved = parts_.residency.save(chunk);
      if (!saved && saved.error().code != ErrorCode::out_of_memory) return saved;
      chunk.stale = saved && chunk.live;
      continue;
    }
    if (const auto begun = parts_.residency.begin_eviction(chunk); !begun) {
      // No host memory: it stays, and whoever lacks its memory asks Demand.
      if (begun.error().code == ErrorCode::out_of_memory) break;
      return begun;
    }
    parts_.departures.add(chunk);
  }
  return Done{};
}

bool Executor::can_be_made_again(const ScriptMap& map) {
  return !map.chain.empty() && std::all_of(map.chain.begin(), map.chain.end(), [&](std::uint32_t index) {
    return index >= next_replay_ && kept_.contains(script_->replays()[index].position) &&
           !makes_early_of_refused(index);
  });
}

Status Executor::drop(std::uint32_t map) {
  Bound& bound = maps_[map];
  if (bound.range == nullptr) return Done{};
  if (bound.range->pinned) return Done{};  // something unseen may have changed it since
  // A call that blocks may be reading it in another thread. What makes a map again may pass through other
  // content.
  if (std::any_of(bound.range->chunks.begin(), bound.range->chunks.end(),
                  [](const Chunk& chunk) { return chunk.pins > 0; }))
    return Done{};
  if (refused(map) || !can_be_made_again(script_->maps()[map])) return evict(map);
  if (const auto noted =
          parts_.verification.dropping(map, script_->names()[map], *bound.range, extents_made(map));
      !noted)
    return noted;
  bound.dropped = true;
  ++dropped_;
  for (Chunk& chunk : bound.range->chunks) {
    if (chunk.state != ChunkState::resident || chunk.occupied == 0) continue;
    if (!chunk.frames.empty()) {
      parts_.residency.drop_host_copy(chunk);
      chunk.expendable = true;
      continue;
    }
    parts_.residency.begin_drop(chunk);
    parts_.departures.add(chunk);
  }
  return Done{};
}

// --- what the plan does not foresee

bool Executor::touches_dropped(std::span<const tracker::Operand> operands) const {
  return std::any_of(operands.begin(), operands.end(), [&](const tracker::Operand& operand) {
    return std::any_of(maps_.begin(), maps_.end(), [&](const Bound& bound) {
      return bound.dropped && bound.allocation == operand.allocation;
    });
  });
}

// Does a replay that is still to come read the allocation?
bool Executor::feeds_dropped(AllocationId allocation) const {
  for (std::uint32_t i = next_replay_; i < script_->replays().size(); ++i) {
    const ScriptReplay& step = script_->replays()[i];
    if (!serves_dropped(step)) continue;
    const auto kept = kept_.find(step.position);
    if (kept == kept_.end()) continue;
    for (std::size_t o = 0; o < kept->second.operands.size(); ++o)
      if (step.operands[o].kind == ReplayPlace::Kind::original &&
          kept->second.operands[o].allocation == allocation)
        return true;
  }
  return false;
}

Status Executor::freeing(const Range& range, AllocationId allocation, Held& held) {
  const Turn::Taken turn = turn_.take(held);
  if (script_ != nullptr) {
    for (std::size_t map = 0; map < maps_.size(); ++map) {
      Bound& bound = maps_[map];
      if (bound.allocation != allocation || bound.range == nullptr) continue;
      parts_.verification.forget(static_cast<std::uint32_t>(map));
      if (bound.dropped) --dropped_;
      bound = {};
    }
    if (dropped_ > 0 && feeds_dropped(allocation))
      if (const auto left = leave(held); !left) return left;
  }
  parts_.departures.forget(range);
  return Done{};
}

Result<bool> Executor::freeing_outside(AllocationId allocation, Held& held) {
  if (script_ == nullptr || dropped_ == 0) return false;
  const Turn::Taken turn = turn_.take(held);
  if (script_ == nullptr || dropped_ == 0 || !feeds_dropped(allocation)) return false;
  if (const auto left = leave(held); !left) return left.error();
  return true;
}

Status Executor::freed(Range& range) {
  if (scripts_.empty()) return Done{};
  for (Chunk& chunk : range.chunks) {
    if (chunk.state != ChunkState::resident || chunk.pins > 0 || !chunk.frames.empty()) continue;
    if (const auto begun = parts_.residency.begin_eviction(chunk); !begun) return begun;
    parts_.departures.add(chunk);
  }
  return Done{};
}

}  // namespace pooch::runtime
