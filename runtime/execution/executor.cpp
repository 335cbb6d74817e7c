#include "runtime/execution/executor.h"

#include <algorithm>

#include "core/log.h"
#include "runtime/memory/landing.h"
#include "runtime/observe/any_size.h"

namespace pooch::runtime {

// --- plans

Status Executor::adopt(tracker::PhaseIndex phase, const Adoption& of, Held& held) {
  const Turn::Taken turn = turn_.take(held);
  auto script = Script::compile(of.plan, of.known.profile, of.out_us_per_byte);
  if (!script) return script.error();
  AdoptedPlan adopted{std::make_unique<const Script>(std::move(*script)), of.known, of.placed};
  book_.begin_trust(phase, adopted);
  // The old one may be what the layout is for.
  if (book_.find(phase) != nullptr)
    if (const auto apart = dismantle(held); !apart) return apart;
  if (iteration_ != nullptr && followed() == book_.find(phase))
    if (const auto left = leave(held); !left) return left;
  const Script& taken = *adopted.script;
  book_.put(phase, std::move(adopted));
  layouts_.reconsider();
  clock_.forget(phase);
  tally_.counts.settled_after = parts_.tracker.iterations().count();
  return prepare_verification(taken, held);
}

void Executor::refresh(tracker::PhaseIndex phase, const KnownPhase& known) {
  // A layout that exists refers to what it was made from.
  AdoptedPlan* const adopted = book_.find(phase);
  if (adopted != nullptr && !aliased()) adopted->known = known;
}

std::pair<tracker::PhaseIndex, std::uint64_t> Executor::counted_as(tracker::PhaseIndex phase,
                                                                   std::uint64_t position) const {
  const PlanBook::Followed plan = book_.followed(phase);
  return {plan.phase, plan.inserted.without(static_cast<std::int32_t>(position))};
}

Status Executor::enter(const tracker::Iterations::Where& where, const PlanBook::Followed& plan,
                       StreamHandle stream) {
  const Script& script = *plan.script;
  tally_.begin_iteration();
  nvtx_iterations_.begin(script.plan().phase);
  // Every point may be asked for, and exactly. In a layout those of the iteration's own stream are asked for
  // as soon as there is nothing behind them: by copies that follow, or not at all.
  parts_.order.set_eager(true);
  parts_.order.relax(aliased() ? std::optional(parts_.order.index(stream)) : std::nullopt);
  layouts_.begin_iteration(script);
  // The phase may have turned out to be another one than was expected: then some of its ops have passed.
  const tracker::StepIndex now = parts_.tracker.steps();
  iteration_ = std::make_shared<Iteration>(script, where.start, plan.inserted, now);
  ++changes_;
  parts_.verification.begin(followed()->trust, script.plan().host_bytes);
  if (iteration_->from_the_start && plan.inserted.count == 0) {
    clock_.begin(where.phase, stream);
  } else {
    clock_.interrupt();
  }
  for (tracker::StepIndex step = where.start; step < now; ++step)
    if (const auto position = iteration_->position_of(step); position && parts_.tracker.log().has(step))
      iteration_->bind(*position, parts_.tracker.log().operands(step), parts_.tracker.allocations());
  return iteration_->from_the_start ? evict_what_begins_away() : Done{};
}

// The plan takes these maps for evicted when the iteration begins. A demand-mode iteration, or one of another
// phase, may have fetched them.
Status Executor::evict_what_begins_away() {
  iteration_->bind_what_is_away(followed()->known.bases, parts_.tracker.allocations());
  for (std::uint32_t map = 0; map < iteration_->maps.size(); ++map)
    if (iteration_->script.maps()[map].across)
      if (const auto gone = evict(map); !gone) return gone;
  return Done{};
}

// What was dropped is made again while all that it needs is still there.
Status Executor::leave(Held& held) {
  if (trace_ != nullptr) trace_->instant("plan left");
  nvtx::mark("plan left");
  ++tally_.counts.left;
  tally_.counts.left_at = parts_.tracker.steps() - iteration_->start;
  const std::shared_ptr<Iteration> left = iteration_;
  log::info("the plan of phase {} is left at op {}", left->script.plan().phase,
            parts_.tracker.steps() - left->start);
  left->pending.clear();
  if (const auto apart = dismantle(held); !apart) return apart;
  if (iteration_ != left) return Done{};  // another thread's op was its last
  for (std::uint32_t i = left->next_replay; i < left->script.replays().size() && left->dropped > 0; ++i) {
    const KeptCall* const kept = left->kept_for(left->script.replays()[i]);
    if (kept == nullptr) continue;
    if (const auto made = replay(i, kept->stream, held); !made) return made;
    if (iteration_ != left) return Done{};  // another thread has left it
  }
  if (const auto ended = end_all_slots(*left); !ended) return ended;
  stop_following();
  return Done{};
}

void Executor::stop_following() {
  tally_.end_iteration();
  parts_.order.relax(std::nullopt);
  iteration_ = nullptr;
  ++changes_;
  parts_.verification.end();
  nvtx_iterations_.end();
}

void Executor::finish() {
  if (iteration_->from_the_start) {
    ++tally_.counts.planned_iterations;
    tally_.counts.aliased_iterations += aliased();
    tally_.counts.any_size_iterations += followed()->known.any_size;
    clock_.complete();
    note_shortage();
  }
  if (trace_ != nullptr) trace_->iteration_planned();
  stop_following();
}

// An iteration has followed its plan to the end. Those that prove what is made again keep more than others.
// What a plan takes is known to a page or so: little that is missing is no reason for another.
void Executor::note_shortage() {
  AdoptedPlan& adopted = *followed();
  const bool asked = tally_.asked_bytes() > parts_.pool.cap() / 1024;
  adopted.short_iterations = asked && !proving(adopted) ? adopted.short_iterations + 1 : 0;
}

std::optional<double> Executor::take_shortage(tracker::PhaseIndex phase) {
  constexpr int in_a_row = 3;
  AdoptedPlan* const adopted = book_.find(phase);
  if (adopted == nullptr || adopted->shortage_told || adopted->short_iterations < in_a_row)
    return std::nullopt;
  const auto takes_ms = clock_.median_ms(phase);
  adopted->shortage_told = takes_ms.has_value();
  return takes_ms;
}

bool Executor::proving(const AdoptedPlan& adopted) {
  const MapTrust& trust = adopted.trust;
  return !adopted.script->replays().empty() && (trust.sampling || trust.iterations <= Verification::proofs);
}

std::optional<PlanPace> Executor::pace() {
  std::optional<PlanPace> most;
  double most_ms = -1;
  for (const auto& [phase, adopted] : book_.all()) {
    const Plan& plan = adopted.script->plan();
    const auto actual = clock_.median_ms(phase);
    const double all_ms =
        actual ? *actual * static_cast<double>(parts_.tracker.iterations().phase(phase).seen) : 0;
    if (all_ms <= most_ms) continue;
    most_ms = all_ms;
    most = PlanPace{&plan, plan.predicted_ms, actual, plan.peak, tally_.peak()};
  }
  return tally_.peak() == 0 ? std::nullopt : most;
}

// --- ops

Result<Executor::Readied> Executor::before(const tracker::Op& op, StreamHandle stream, Held& held) {
  Readied readied;
  if (!book_.empty()) {
    const Turn::Taken turn = turn_.take(held);
    const auto position = lead_up_to(op, stream, held);
    if (!position) return position.error();
    readied.position = *position;
    readied.passes_by = op.step && !*position && iteration_ != nullptr;
  }
  readied.ops = parts_.tracker.ops();
  readied.changes = changes();
  return readied;
}

bool Executor::overtaken(const Readied& readied) const {
  return !book_.empty() && (readied.ops != parts_.tracker.ops() || readied.changes != changes());
}

// An iteration of a phase of any size may be larger than all that its plan was made for: it goes without.
bool Executor::fits(const tracker::Iterations::Where& where, const tracker::Op& op) {
  const AdoptedPlan* const adopted = book_.find(where.phase);
  if (adopted == nullptr || !adopted->known.any_size) return true;
  if (outgrown_ == where.start) return false;
  const bool has = has_room(adopted->known.profile, parts_.tracker.steps() - where.start, op.operands);
  if (!has) outgrown_ = where.start;
  return has;
}

Result<std::optional<std::int32_t>> Executor::lead_up_to(const tracker::Op& op, StreamHandle stream,
                                                         Held& held) {
  using Position = std::optional<std::int32_t>;
  // What the program or another device sees of this one's memory must not rest on a difference.
  const OpKind kind = op.description.kind;
  const bool shows = kind == OpKind::copy_out || kind == OpKind::collective;
  using Late = Verification::Late;
  if (const auto compared = settle_comparisons(shows ? Late::await : Late::where_known, held); !compared)
    return compared.error();
  if (!op.step) {
    if (iteration_ != nullptr && iteration_->dropped > 0 && iteration_->touches_dropped(op.operands))
      if (const auto left = leave(held); !left) return left.error();
    if (const auto admitted = layouts_.admit(step_between_ops(), op.operands, held); !admitted)
      return admitted.error();
    return Position{};
  }
  for (;;) {
    const auto where = parts_.tracker.expect(op);
    const auto plan = where && fits(*where, op) ? book_.followed(where->phase) : PlanBook::Followed{};
    const Script* const wanted = plan.script;
    if (iteration_ != nullptr && (wanted != &iteration_->script || where->start != iteration_->start ||
                                  !iteration_->turns_out(plan.inserted, parts_.tracker.steps()))) {
      if (const auto left = leave(held); !left) return left.error();
      continue;  // a host wait may have let other ops in
    }
    const tracker::StepIndex steps = parts_.tracker.steps();
    if (iteration_ == nullptr && wanted != nullptr && before_plans_)
      if (const auto prepared = before_plans_(held); !prepared) return prepared.error();
    if (iteration_ == nullptr)
      if (const auto settled = layouts_.settle(wanted, held); !settled) return settled.error();
    if (parts_.tracker.steps() != steps) continue;
    if (wanted == nullptr) {
      clock_.interrupt();
      return Position{};
    }
    if (iteration_ == nullptr)
      if (const auto prepared = prepare_verification(*wanted, held); !prepared) return prepared.error();
    if (parts_.tracker.steps() != steps) continue;
    if (iteration_ == nullptr)
      if (const auto entered = enter(*where, plan, stream); !entered) return entered.error();
    const auto position = iteration_->position_of(parts_.tracker.steps());
    if (!position) {
      if (const auto passed_by = pass_by(op, held); !passed_by) return passed_by.error();
      if (parts_.tracker.steps() != steps || iteration_ == nullptr) continue;
      return Position{};
    }
    if (*position > iteration_->position + 1) {
      // An op came in between while another one blocked: nothing was done ahead of it.
      if (const auto left = leave(held); !left) return left.error();
      continue;
    }
    const tracker::StepIndex step = parts_.tracker.steps();
    const std::shared_ptr<Iteration> mine = iteration_;
    if (const auto acted = act_before(*position, op, stream, held); !acted) return acted.error();
    if (parts_.tracker.steps() != step || iteration_ != mine) continue;
    return position;
  }
}

// An op in between, which the plan does not know: what is away comes back for it as if there were no plan.
Status Executor::pass_by(const tracker::Op& op, Held& held) {
  clock_.interrupt();
  if (iteration_->spoils_replays(op.operands) ||
      (iteration_->dropped > 0 && iteration_->touches_dropped(op.operands)))
    return leave(held);
  return layouts_.admit(step_between_ops(), op.operands, held);
}

Status Executor::act_before(std::int32_t position, const tracker::Op& op, StreamHandle stream, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  if (mine->position != position) mine->position = position, mine->next_action = 0;
  const auto actions = mine->script.before(position);
  while (iteration_ == mine && mine->position == position && mine->next_action < actions.size()) {
    const ScriptAction action = actions[mine->next_action];
    if (action.kind == PlanAction::Kind::prefetch) {
      ++mine->next_action;
      mine->pending.push_back({action.subject, action.up_to});
      if (const auto fetched = fetch_pending({}, held); !fetched) return fetched;
    } else {
      fetch_refused(mine->script.replays()[action.subject]);
      // One that fails is tried again: by the same op, where the program repeats it, or when the plan is
      // left.
      if (const auto made = replay(action.subject, stream, held); !made) return made;
      if (iteration_ != mine) break;
      ++mine->next_action;
      mine->next_replay = action.subject + 1;
    }
  }
  if (const auto ended = end_stand_ins(*mine); !ended) return ended;
  if (iteration_ != mine) return Done{};
  // Memory that came free since an earlier op goes to prefetches first.
  if (const auto fetched = fetch_pending(op.operands, held); !fetched) return fetched;
  return layouts_.admit(mine->script.step_of_op(position), op.operands, held);
}

// Behind the latest op, ahead of whatever comes before the next.
std::int32_t Executor::step_between_ops() const {
  if (iteration_ == nullptr) return 0;
  const std::int32_t passed = iteration_->passed(parts_.tracker.steps());
  return passed == 0 ? 0 : iteration_->script.step_of_op(passed - 1) + 1;
}

// In the plan's order: a later prefetch must not take the memory of an earlier one. Piece by piece, as memory
// comes free, so that the link is not idle while the rest is waited for.
Status Executor::fetch_pending(std::span<const tracker::Operand> awaited, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  while (!mine->pending.empty()) {
    const PendingFetch next = mine->pending.front();
    if (const auto fetched = layouts_.fetch(next, held); !fetched) return fetched;
    if (iteration_ != mine) return Done{};  // another thread's op was its last
    const std::uint64_t bytes = gather_missing(mine->maps[next.map], next.up_to);
    if (uses_.empty()) {
      if (!mine->pending.empty() && mine->pending.front() == next) mine->pending.pop_front();
      continue;
    }
    if (Landing* const landing = parts_.residency.landing(); landing != nullptr) {
      const auto waited = landing->await_untouched(uses_, Landing::Patience::none, held);
      if (!waited) return waited.error().code == ErrorCode::out_of_memory ? Status(Done{}) : waited.error();
      if (iteration_ != mine) return Done{};
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
      if (const auto fetched = fetch(*mine, uses_, next.map); !fetched) return fetched;
      if (uses_.front().chunk->state == ChunkState::evicted) return Done{};  // refused: Demand's business
    } else {
      if (!mine->awaits_fetch(awaited)) return Done{};
      const auto came = parts_.departures.reclaim(first_bytes, Departures::Wait::yes, held);
      if (!came) return came.error();
      if (!*came || iteration_ != mine) return Done{};  // the op itself asks Demand
    }
  }
  return Done{};
}

// Lists the chunks that are not on the device, of the first `up_to` bytes, in `uses_`; their bytes.
std::uint64_t Executor::gather_missing(const BoundMap& bound, std::uint64_t up_to) {
  uses_.clear();
  std::uint64_t bytes = 0;
  if (bound.range == nullptr) return 0;
  for (Chunk& chunk : bound.range->chunks) {
    if (chunk.offset + chunk.occupied > up_to) break;
    if (!chunk.frames.empty()) continue;
    if (chunk.state == ChunkState::evicting && !bound.dropped) parts_.residency.take_back(chunk);
    if (chunk.state != ChunkState::evicted) continue;
    uses_.push_back({&chunk, true, false});
    bytes += chunk.bytes;
  }
  return bytes;
}

Status Executor::fetch(const Iteration& of, const std::vector<ChunkUse>& uses, std::uint32_t map) {
  const nvtx::Range range(nvtx::Category::prefetch, of.script.names()[map]);
  const auto resident = parts_.residency.make_resident(uses);
  if (!resident && resident.error().code != ErrorCode::out_of_memory) return resident;
  const std::uint64_t now = parts_.placement.tick();
  for (const ChunkUse& use : uses) use.chunk->last_use = now;
  return Done{};
}

void Executor::keep(std::int32_t position, const Call& call, const tracker::Op& op,
                    std::unique_ptr<Replay> replay) {
  if (replay != nullptr && iteration_ != nullptr) iteration_->keep(position, call, op, std::move(replay));
}

Status Executor::after(std::int32_t position, const tracker::Op& op) {
  if (iteration_ == nullptr || iteration_->passed(parts_.tracker.steps()) != position + 1) return Done{};
  iteration_->bind(position, op.operands, parts_.tracker.allocations());
  iteration_->went_through(position, op.description.clip);
  tally_.note_peak();
  Status outcome = Done{};
  for (const ScriptAction& action : iteration_->script.after(position)) {
    const Status done = action.kind == PlanAction::Kind::evict ? evict(action.subject) : drop(action.subject);
    if (!done && outcome) outcome = done;
  }
  if (position + 1 == iteration_->script.positions()) finish();
  return outcome;
}

Status Executor::evict(std::uint32_t map) {
  const BoundMap& bound = iteration_->maps[map];
  if (bound.range == nullptr) return Done{};
  const nvtx::Range range(nvtx::Category::evict, iteration_->script.names()[map]);
  for (Chunk& chunk : bound.range->chunks) {
    const ScriptMap& planned = iteration_->script.maps()[map];
    if (planned.of == MapClass::swap && chunk.offset + chunk.occupied > planned.moved) break;
    if (chunk.state != ChunkState::resident || chunk.pins > 0 || chunk.stale || chunk.occupied == 0) continue;
    if (!chunk.frames.empty()) {
      // Where there is no room on the host, whoever comes next to a frame finds it occupied: see `admit`.
      const auto saved = parts_.residency.save(chunk);
      if (!saved && saved.error().code != ErrorCode::out_of_memory) return saved;
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
    return index >= iteration_->next_replay &&
           iteration_->kept_for(iteration_->script.replays()[index]) != nullptr &&
           !makes_early_of_refused(index);
  });
}

Status Executor::drop(std::uint32_t map) {
  BoundMap& bound = iteration_->maps[map];
  if (bound.range == nullptr) return Done{};
  if (bound.range->pinned) return Done{};  // something unseen may have changed it since
  // A call that blocks may be reading it in another thread. What makes a map again may pass through other
  // content.
  if (std::any_of(bound.range->chunks.begin(), bound.range->chunks.end(),
                  [](const Chunk& chunk) { return chunk.pins > 0; }))
    return Done{};
  if (refused(map) || !can_be_made_again(iteration_->script.maps()[map])) return evict(map);
  if (const auto noted = parts_.verification.dropping(map, iteration_->script.names()[map], *bound.range,
                                                      iteration_->extents_made(map));
      !noted)
    return noted;
  bound.dropped = true;
  ++iteration_->dropped;
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

Status Executor::freeing(const Range& range, AllocationId allocation, Held& held) {
  const Turn::Taken turn = turn_.take(held);
  if (iteration_ != nullptr) {
    iteration_->end(allocation, [this](std::uint32_t map) { parts_.verification.forget(map); });
    if (iteration_->dropped > 0 && iteration_->feeds_dropped(allocation))
      if (const auto left = leave(held); !left) return left;
  }
  parts_.departures.forget(range);
  return Done{};
}

Result<bool> Executor::freeing_outside(AllocationId allocation, Held& held) {
  if (iteration_ == nullptr || iteration_->dropped == 0) return false;
  const Turn::Taken turn = turn_.take(held);
  if (iteration_ == nullptr || iteration_->dropped == 0 || !iteration_->feeds_dropped(allocation))
    return false;
  if (const auto left = leave(held); !left) return left.error();
  return true;
}

}  // namespace pooch::runtime
