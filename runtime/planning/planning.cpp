#include "runtime/planning/planning.h"

#include <fmt/core.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {
namespace {

// Plans that are asked for because the one before has no layout, or places have changed since.
constexpr int most_layouts = 4;

}  // namespace

void Planning::note_order() {
  constexpr std::uint64_t long_enough = 1U << 15;  // several iterations of what is trained today
  if (explained_) return;
  if (tracker_.iterations().where()) {
    unordered_ = 0;
    ++ordered_;
    return;
  }
  threads_.insert(std::this_thread::get_id());
  ++disordered_;
  if (++unordered_ == long_enough) explain_disorder("the latest ", unordered_);
}

void Planning::explain_disorder(std::string_view which, std::uint64_t ops) {
  explained_ = true;
  const std::string from =
      threads_.size() == 1
          ? ""
          : fmt::format("; {} threads make them, and a plan needs them in the same order each time",
                        threads_.size());
  log::warn("no plan: {}{} ops do not repeat themselves{}", which, ops, from);
}

void Planning::abandon() {
  // One thread's program may just be over before it repeats itself.
  // By chance a few of many threads' ops may have repeated themselves.
  if (!explained_ && disordered_ > ordered_ && threads_.size() > 1) explain_disorder("", disordered_);
  source_->abandon();
}

bool Planning::wants_to_act() const {
  const auto where = tracker_.iterations().where();
  return where && where->start != acted_in_;
}

bool Planning::wants_profile() const {
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const auto state = states_.find(tracker::PhaseIndex{i});
    if (state != states_.end() && state->second.settled) continue;
    if (profiler_.plannable(tracker::PhaseIndex{i}) != nullptr) return true;
  }
  return false;
}

void Planning::act(const std::function<Profile()>& profile, double out_us_per_byte, Held& held) {
  if (const auto where = tracker_.iterations().where()) acted_in_ = where->start;
  const auto now = std::chrono::steady_clock::now();
  if (acted_at_) iteration_took_ = now - *acted_at_;
  acted_at_ = now;
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const tracker::PhaseIndex phase{i};
    const KnownPhase* known = profiler_.plannable(phase);
    if (known == nullptr) continue;
    act(phase, *known, profile, out_us_per_byte, held);
  }
}

void Planning::act(tracker::PhaseIndex phase, const KnownPhase& known,
                   const std::function<Profile()>& profile, double out_us_per_byte, Held& held) {
  const std::string id = known.profile.id;
  State& state = states_[phase];
  if (state.basis.revision != 0 && state.basis.revision != known.revision) reconsider(phase, state, known);
  try_layout(phase, state, known);
  relieve_shortage(phase, state, known);
  drop_substitutes(phase, state, known);
  if (state.outdated && !source_->pending(id)) renew(state, id);
  if (state.settled || awaits_trials(state)) return;
  if (state.basis.revision == 0) {
    state.basis = {
        known.revision, structure_of(known.profile), {}, 0, state.crowded ? 0 : unseen_bytes(known.profile),
        false};
    const bool made_for_it = source_->request(id, profile, wish(phase, state, known));
    state.basis.estimated = made_for_it && known.profile.measured == 0;
    if (made_for_it)
      for (const ProfileOp& op : known.profile.ops) state.basis.us.push_back(op.us + op.gap_us);
  }
  await_plan(state, id);
  auto plan = state.unproven ? std::exchange(state.unproven, std::nullopt) : source_->poll(id);
  if (state.outdated) return;
  if (plan) {
    adopt(phase, state, std::move(*plan), known, out_us_per_byte, held);
    const KnownPhase* const still = profiler_.plannable(phase);  // the lock may have been released
    if (state.tried || still == nullptr || !still->settled) return;
    return act(phase, *still, profile, out_us_per_byte, held);
  }
  if (source_->pending(id)) return;
  state.settled = true;
  if (keeps_short_plan(state, std::nullopt)) return;
  if (state.basis.unseen == 0) return;
  // One for more memory than there is still moves most of what has to move.
  state.crowded = true;
  renew(state, id);
  act(phase, known, profile, out_us_per_byte, held);
}

void Planning::adopt(tracker::PhaseIndex phase, State& state, Plan plan, const KnownPhase& known,
                     double out_us_per_byte, Held& held) {
  const std::string id = known.profile.id;  // `known` may change while the lock is released
  if (!proves(known, state, plan)) return;
  state.settled = true;
  if (keeps_short_plan(state, plan.predicted_ms)) return;
  if (state.basis.us.empty()) state.basis.in_core_ms = plan.in_core_ms;
  if (state.remaps) plan.backing = Backing::remap;
  if (const auto adopted = executor_.adopt(phase, plan, known, out_us_per_byte, held); !adopted)
    return log::warn("{}; phase {} goes on without it", adopted.error().message, id);
  state.tried = false;
  if (const std::string remark = source_->take_remark(); !remark.empty()) log::warn("{}", remark);
  log::info("phase {}: plan by {}, {:.1f} ms predicted, {:.1f} ms in core", id, plan.policy,
            plan.predicted_ms, plan.in_core_ms);
}

// While layouts are tried iterations are slow, since memory is mapped anew all the time. A planner that takes
// less time is waited for; where one was not ready by then, no other is.
void Planning::await_plan(const State& state, const std::string& id) {
  if (wait_) return source_->settle(id);
  if (state.layouts > 0 && patient_) patient_ = source_->settle(id, iteration_took_ / 2);
}

// Before an iteration is spent on a plan that cannot be laid out. A plan without a layout is followed by
// remapping while another one is made.
void Planning::try_layout(tracker::PhaseIndex phase, State& state, const KnownPhase& known) {
  if (!state.settled || state.outdated || !known.settled) return;
  if (!std::exchange(state.tried, true)) executor_.try_layout();
  const auto lack = executor_.take_lack(phase);
  if (!lack) return;
  state.lacking += *lack;
  state.remaps = state.layouts++ >= most_layouts;
  state.outdated = state.fresh = true;
}

// What is being tried now is worth a plan that knows of it.
bool Planning::awaits_trials(State& state) {
  constexpr int most_deferred = 3;  // iterations
  if (state.basis.revision != 0) return false;
  if (wait_) profiler_.trials().await();
  return profiler_.trials().pending() && state.deferred++ < most_deferred;
}

// A plan from elsewhere may be of another library, which rounds in another way. What is being tried still is
// waited for; what is not so is planned anew.
bool Planning::proves(const KnownPhase& known, State& state, const Plan& plan) {
  constexpr int most_waited = 8;
  std::map<std::uint32_t, Formula> formulas;
  for (const auto& [position, actions] : plan.before)
    for (const PlanAction& action : actions)
      if (action.formula) formulas.emplace(action.subject, *action.formula);
  if (formulas.empty()) return true;
  if (wait_) profiler_.trials().await();
  const Profiler::Proof proof = profiler_.proves(known, formulas);
  if (proof == Profiler::Proof::not_yet && state.waited++ < most_waited) {
    state.unproven = plan;
    return false;
  }
  state.waited = 0;
  if (proof == Profiler::Proof::yes) return true;
  constexpr const char* why = "a plan makes calls again in a way that was not seen to make their bits";
  state.settled = source_->given(known.profile.id);
  if (state.settled) {
    log::warn("phase {}: {}; it goes on without it", known.profile.id, why);
  } else {
    log::info("phase {}: {}", known.profile.id, why);
    state.outdated = state.fresh = true;
  }
  return false;
}

// Whether what was planned for is still so.
void Planning::reconsider(tracker::PhaseIndex phase, State& state, const KnownPhase& known) {
  if (!differs(state.basis, known)) {
    state.basis.revision = known.revision;
    state.basis.estimated &= known.profile.measured == 0;
    executor_.refresh(phase, known);
    return;
  }
  log::info("phase {}: its times have changed; it is planned again", known.profile.id);
  state.outdated = state.fresh = true;
  ++replans_;
}

void Planning::renew(State& state, const std::string& id) {
  source_->forget(id);
  state.basis = {};
  state.unproven.reset();
  state.settled = state.outdated = false;
}

bool Planning::differs(const Basis& basis, const KnownPhase& known) {
  constexpr double noticeable = 0.03, noticeable_in_all = 0.1;  // of an iteration
  if (basis.structure != structure_of(known.profile)) return true;
  double whole = 0, other = 0, now = 0;
  for (std::size_t i = 0; i < known.profile.ops.size(); ++i) {
    const double us = known.profile.ops[i].us + known.profile.ops[i].gap_us;
    now += us;
    if (basis.us.empty()) continue;
    whole += basis.us[i];
    other += std::abs(basis.us[i] - us);
  }
  if (!basis.us.empty()) return other > noticeable * whole;
  // A plan that was made in another run, where everything may have taken another time.
  const double then = basis.in_core_ms * 1e3;
  return known.profile.measured > 0 && then > 0 && std::abs(now - then) > noticeable_in_all * then;
}

// What the cap has to hold beside what the phase's own buffers show, as far as plans do not leave that alone
// anyway: workspaces of libraries, the driver's code, what others on the device have taken.
std::uint64_t Planning::unseen_bytes(const PhaseProfile& phase) const {
  std::vector<std::int64_t> change(phase.ops.size() + 2, 0);
  for (const ProfileBuffer& buffer : phase.buffers) {
    if (buffer.managed) continue;
    change[buffer.from == outside ? 0 : buffer.from] += static_cast<std::int64_t>(buffer.bytes);
    if (buffer.until != outside) change[buffer.until] -= static_cast<std::int64_t>(buffer.bytes);
  }
  std::int64_t seen = 0, now = 0;
  for (const std::int64_t by : change) seen = std::max(seen, now += by);
  const std::uint64_t known =
      round_up(static_cast<std::uint64_t>(seen), page) + HandlePool::reserve(pool_.cap());
  return pool_.outside() > known ? pool_.outside() - known : 0;
}

// Under the plan at hand Demand is asked for memory again and again: it was made for more than there is.
void Planning::relieve_shortage(tracker::PhaseIndex phase, State& state, const KnownPhase& known) {
  constexpr int most = 4;
  if (!state.settled || state.outdated || state.crowded || source_->given(known.profile.id)) return;
  const auto takes_ms = executor_.take_shortage(phase);
  if (!takes_ms || state.shortages == most) return;
  const std::uint64_t step = std::max(pool_.cap() / 64 / page * page, page) << state.shortages++;
  state.short_by = unseen_bytes(known.profile) > state.basis.unseen ? 0 : step;
  state.lacking += state.short_by;
  log::info("phase {}: {:.1f} ms, since memory is short under its plan; it is planned for less",
            known.profile.id, *takes_ms);
  state.short_ms = *takes_ms;
  state.outdated = true;
  ++replans_;
}

// Verification has swapped what they made meanwhile.
void Planning::drop_substitutes(tracker::PhaseIndex phase, State& state, const KnownPhase& known) {
  const auto disproved = executor_.take_disproved(phase);
  if (disproved.empty() || source_->given(known.profile.id)) return;
  log::info("phase {}: {} calls cannot be made again by shorter ways; it is planned without those",
            known.profile.id, disproved.size());
  profiler_.disprove(phase, disproved);
  state.outdated = state.fresh = true;
  ++replans_;
}

// A plan that is short of memory may still be better than the one for less; empty: there is none.
bool Planning::keeps_short_plan(State& state, std::optional<double> instead_ms) {
  const double now_ms = std::exchange(state.short_ms, 0);
  if (now_ms == 0 || (instead_ms && *instead_ms < now_ms)) return false;
  state.lacking -= state.short_by;
  return true;
}

PlanSource::Wish Planning::wish(tracker::PhaseIndex phase, const State& state,
                                const KnownPhase& known) const {
  PlanSource::Wish wish;
  wish.structure = state.basis.structure;
  wish.backing = backing(state);
  wish.reserve = state.lacking + state.basis.unseen;
  if (wish.backing == Backing::alias) {
    // A layout holds whole chunks and pages, which plans do not count. With room to spare, more chunks keep
    // their frames.
    wish.reserve += pool_.cap() / 256 / page * page;
    wish.room = pool_.least_limit() - std::min(pool_.least_limit(), state.lacking);
    wish.beside = executor_.plans_beside(phase);
  }
  constexpr std::size_t most_beside = 12;  // plans that a planner is given
  if (wish.beside.size() > most_beside) wish.backing = Backing::remap;
  wish.lay_out = state.layouts > 0 && !state.remaps;
  wish.fresh = state.fresh;
  wish.provisional = known.profile.measured == 0;
  wish.optional = state.short_ms > 0 || state.basis.unseen > 0 || state.layouts > 0;
  return wish;
}

Backing Planning::backing(const State& state) const {
  if (backing_ == BackingUse::automatic)
    return state.remaps || !executor_.may_alias() ? Backing::remap : Backing::alias;
  return backing_ == BackingUse::alias ? Backing::alias : Backing::remap;
}

}  // namespace pooch::runtime
