#include "runtime/planning/planning.h"

#include <fmt/core.h>

#include <cmath>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {
namespace {

// There is a plan that is followed meanwhile, so a search may take longer: it ends 0.2 to 0.4 % better.
constexpr unsigned patient = 8;

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
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const tracker::PhaseIndex phase{i};
    const KnownPhase* known = profiler_.plannable(phase);
    if (known == nullptr) continue;
    act(phase, *known, profile, out_us_per_byte, held);
    known = profiler_.plannable(phase);  // the lock may have been released
    if (known != nullptr && choose_backing(phase, states_[phase], known->profile.id))
      act(phase, *known, profile, out_us_per_byte, held);
  }
}

void Planning::act(tracker::PhaseIndex phase, const KnownPhase& known,
                   const std::function<Profile()>& profile, double out_us_per_byte, Held& held) {
  const std::string id = known.profile.id;
  State& state = states_[phase];
  retry_layout(phase, state);
  relieve_shortage(phase, state, known);
  choose_backing(phase, state, id);
  if (state.basis.revision != 0 && state.basis.revision != known.revision) reconsider(phase, state, known);
  if (state.outdated && !source_->pending(id)) renew(state, id);
  if (state.settled) return;
  if (state.basis.revision == 0) {
    state.basis = {known.revision,
                   structure_of(known.profile),
                   0,
                   {},
                   0,
                   state.crowded ? 0 : unseen_bytes(known.profile),
                   false};
    for (const ProfileOp& op : known.profile.ops) state.basis.busy_ms += op.us / 1e3;
    const std::uint64_t beside = backing(state) == Backing::alias ? layout_loss_ : state.lacking;
    const bool made_for_it =
        source_->request(id, profile,
                         {.structure = state.basis.structure,
                          .backing = backing(state),
                          .reserve = state.reserve + beside + state.basis.unseen,
                          .fresh = state.fresh,
                          .provisional = known.profile.measured == 0,
                          .optional = tries_alias(state) || state.short_ms > 0 || state.basis.unseen > 0,
                          .effort = tries_alias(state) ? patient : 1});
    state.basis.estimated = made_for_it && known.profile.measured == 0;
    if (made_for_it)
      for (const ProfileOp& op : known.profile.ops) state.basis.us.push_back(op.us + op.gap_us);
  }
  if (wait_) source_->settle(id);
  auto plan = source_->poll(id);
  if (state.outdated) return;
  if (plan) return adopt(phase, state, std::move(*plan), known, out_us_per_byte, held);
  if (source_->pending(id)) return;
  state.settled = true;
  if (keeps_short_plan(state, std::nullopt)) return;
  if (tries_alias(state)) return give_up_alias(state);
  if (state.basis.unseen == 0) return;
  // One for more memory than there is still moves most of what has to move.
  state.crowded = true;
  renew(state, id);
  act(phase, known, profile, out_us_per_byte, held);
}

void Planning::adopt(tracker::PhaseIndex phase, State& state, Plan plan, const KnownPhase& known,
                     double out_us_per_byte, Held& held) {
  constexpr double worth_it = 1.05;
  const std::string id = known.profile.id;  // `known` may change while the lock is released
  state.settled = true;
  if (keeps_short_plan(state, plan.predicted_ms)) return;
  if (!tries_alias(state)) {
    state.full_ms = plan.still_ms.value_or(plan.predicted_ms);
    state.plan_ms = plan.predicted_ms;
    state.busy_ms = state.basis.busy_ms;
  }
  state.paced = false;
  if (state.basis.us.empty()) state.basis.in_core_ms = plan.in_core_ms;
  const double most_ms = state.remapped_ms > 0 ? state.remapped_ms : state.full_ms * worth_it;
  if (tries_alias(state) && plan.predicted_ms > most_ms) return end_trial(state);
  if (state.remaps) plan.backing = Backing::remap;
  if (const auto adopted = executor_.adopt(phase, plan, known, out_us_per_byte, held); !adopted)
    return log::warn("{}; phase {} goes on without it", adopted.error().message, id);
  log::info("phase {}: plan by {}, {:.1f} ms predicted, {:.1f} ms in core", id, plan.policy,
            plan.predicted_ms, plan.in_core_ms);
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
  left_alone(state) += state.short_by;
  log::info("phase {}: {:.1f} ms, since memory is short under its plan; it is planned for less",
            known.profile.id, *takes_ms);
  state.short_ms = *takes_ms;
  state.outdated = true;
  ++replans_;
}

std::uint64_t& Planning::left_alone(State& state) const {
  return backing(state) == Backing::alias ? state.reserve : state.lacking;
}

// A plan that is short of memory may still be better than the one for less; empty: there is none.
bool Planning::keeps_short_plan(State& state, std::optional<double> instead_ms) {
  const double now_ms = std::exchange(state.short_ms, 0);
  if (now_ms == 0 || (instead_ms && *instead_ms < now_ms)) return false;
  left_alone(state) -= state.short_by;
  return true;
}

void Planning::retry_layout(tracker::PhaseIndex phase, State& state) {
  constexpr int most = 8;
  if (!state.settled) return;
  const std::uint64_t shortfall = executor_.take_shortfall(phase);
  if (shortfall == 0) return;
  if (state.layouts++ == most) return give_up_alias(state);
  state.reserve += shortfall;
  state.outdated = true;
}

void Planning::give_up_alias(State& state) {
  state.outdated = tries_alias(state);  // the first plan is the better one
  state.reserve = 0;
  state.remaps = true;
}

// Alias mode is no better than remapping: for good, unless that was foretold and not measured.
void Planning::end_trial(State& state) {
  if (!state.foretold) return give_up_alias(state);
  state.outdated = state.must_show = true;
  state.foretold = false;
  state.reserve = 0;
  state.remapped_ms = 0;
}

bool Planning::tries_alias(const State& state) {
  return !state.remaps && (state.reserve > 0 || state.remapped_ms > 0);
}

Backing Planning::backing(const State& state) const {
  const bool tried = backing_ == BackingUse::automatic && tries_alias(state);
  return tried || backing_ == BackingUse::alias ? Backing::alias : Backing::remap;
}

// What an iteration that the clock finds to take `now_ms` would take if ops took as long as when the plan was
// made: by iterations that are timed again for it, since the device's own clock rises and falls. Empty: not
// known yet.
std::optional<double> Planning::paced_ms(tracker::PhaseIndex phase, State& state, double now_ms) {
  if (!std::exchange(state.paced, true)) profiler_.time_again(phase);
  if (profiler_.timing_again(phase)) return std::nullopt;
  const auto stretch = profiler_.stretch(phase);
  return stretch ? *stretch * state.busy_ms : now_ms;
}

// Remapping that is behind what the plan would take if nothing had to be mapped makes room for alias mode, as
// soon as the plan foretells it or the clock shows it, and is back where that is no faster. A layout is of no
// use where phases take turns that differ in what they need.
bool Planning::choose_backing(tracker::PhaseIndex phase, State& state, const std::string& id) {
  constexpr double behind = 1.005;
  if (backing_ != BackingUse::automatic || source_->given(id)) return false;
  if (state.remaps || !state.settled || state.outdated) return false;
  const auto now_ms = executor_.steady_ms(phase);
  if (tries_alias(state)) {
    if (executor_.may_alias()) {
      if (!now_ms || *now_ms <= state.remapped_ms) return false;
      const auto paced = paced_ms(phase, state, *now_ms);
      if (!paced || *paced <= state.remapped_ms) return false;
    }
    log::info("phase {}: alias mode is no faster", id);
    end_trial(state);
    return false;
  }
  if (states_.size() > 1 || !executor_.may_alias()) return false;
  const bool foretold = !now_ms && !state.must_show && !state.basis.estimated;
  double takes_ms = now_ms ? *now_ms : foretold ? state.plan_ms : 0;
  if (takes_ms <= state.full_ms * behind) return false;
  if (now_ms) {
    const auto paced = paced_ms(phase, state, *now_ms);
    if (!paced || *paced <= state.full_ms * behind) return false;
    takes_ms = *paced;
  }
  log::info("phase {}: {:.1f} ms{}, {:.1f} if nothing were mapped: alias mode is tried", id, takes_ms,
            foretold ? " foretold" : "", state.full_ms);
  state.remapped_ms = takes_ms;
  state.foretold = foretold;
  state.outdated = true;
  ++alias_trials_;
  return true;
}

}  // namespace pooch::runtime
