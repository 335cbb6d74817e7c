#include "runtime/planning.h"

#include <cmath>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {

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

void Planning::act(const std::function<Profile()>& profile, double out_us_per_byte,
                   std::unique_lock<std::mutex>& lock) {
  if (const auto where = tracker_.iterations().where()) acted_in_ = where->start;
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const tracker::PhaseIndex phase{i};
    if (const KnownPhase* const known = profiler_.plannable(phase))
      act(phase, *known, profile, out_us_per_byte, lock);
  }
}

void Planning::act(tracker::PhaseIndex phase, const KnownPhase& known,
                   const std::function<Profile()>& profile, double out_us_per_byte,
                   std::unique_lock<std::mutex>& lock) {
  const std::string id = known.profile.id;  // `known` may change while the lock is released
  State& state = states_[phase];
  retry_layout(phase, state);
  if (state.basis.revision != 0 && state.basis.revision != known.revision) reconsider(phase, state, known);
  if (state.outdated && !source_->pending(id)) renew(state, id);
  if (state.settled) return;
  if (state.basis.revision == 0) {
    state.basis = {known.revision, structure_of(known.profile), {}};
    const bool made_for_it = source_->request(
        id, profile, {state.basis.structure, state.reserve, state.fresh, known.profile.measured == 0});
    if (made_for_it)
      for (const ProfileOp& op : known.profile.ops) state.basis.us.push_back(op.us);
  }
  if (wait_) source_->settle(id);
  const auto plan = source_->poll(id);
  if (state.outdated) return;
  if (!plan) {
    state.settled = !source_->pending(id);
    return;
  }
  state.settled = true;
  if (const auto adopted = executor_.adopt(phase, *plan, known, out_us_per_byte, lock); !adopted)
    return log::warn("{}; phase {} goes on without a plan", adopted.error().message, id);
  log::info("phase {}: plan by {}, {:.1f} ms predicted, {:.1f} ms in core", id, plan->policy,
            plan->predicted_ms, plan->in_core_ms);
}

// Is what was planned for still so?
void Planning::reconsider(tracker::PhaseIndex phase, State& state, const KnownPhase& known) {
  if (!differs(state.basis, known)) {
    state.basis.revision = known.revision;
    executor_.refresh(phase, known);
    return;
  }
  log::info("phase {}: its times have changed; it is planned again", known.profile.id);
  state.outdated = state.fresh = true;
}

void Planning::renew(State& state, const std::string& id) {
  source_->forget(id);
  state.basis = {};
  state.settled = state.outdated = false;
}

bool Planning::differs(const Basis& basis, const KnownPhase& known) {
  constexpr double noticeable = 0.03;  // of an iteration
  if (basis.structure != structure_of(known.profile)) return true;
  double whole = 0, other = 0;
  for (std::size_t i = 0; i < basis.us.size(); ++i) {
    whole += basis.us[i];
    other += std::abs(basis.us[i] - known.profile.ops[i].us);
  }
  return other > noticeable * whole;
}

void Planning::retry_layout(tracker::PhaseIndex phase, State& state) {
  constexpr int most = 4;
  if (!state.settled || state.layouts == most) return;
  const std::uint64_t more = executor_.withdraw_for_layout(phase);
  if (more == 0) return;
  ++state.layouts;
  state.reserve += more;
  state.outdated = true;
}

}  // namespace pooch::runtime
