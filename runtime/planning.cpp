#include "runtime/planning.h"

#include "core/log.h"

namespace pooch::runtime {

bool Planning::wants_to_act() const {
  const auto where = tracker_.iterations().where();
  return where && where->start == tracker_.steps();
}

bool Planning::wants_profile() const {
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i)
    if (!settled_.contains(tracker::PhaseIndex{i}) && profiler_.settled(tracker::PhaseIndex{i}) != nullptr)
      return true;
  return false;
}

void Planning::act(const std::function<Profile()>& profile, double out_us_per_byte) {
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const tracker::PhaseIndex phase{i};
    const KnownPhase* const known = profiler_.settled(phase);
    if (known == nullptr) continue;
    retry(phase, known->profile.id);
    if (settled_.contains(phase)) continue;
    source_->request(known->profile.id, profile, structure_of(known->profile), retries_[phase].reserve);
    if (wait_) source_->settle(known->profile.id);
    adopt(phase, *known, out_us_per_byte);
  }
}

void Planning::retry(tracker::PhaseIndex phase, const std::string& id) {
  constexpr int most = 4;
  Retry& retry = retries_[phase];
  if (!settled_.contains(phase) || retry.times == most) return;
  const std::uint64_t more = executor_.withdraw_for_layout(phase);
  if (more == 0) return;
  ++retry.times;
  retry.reserve += more;
  source_->forget(id);
  settled_.erase(phase);
}

void Planning::adopt(tracker::PhaseIndex phase, const KnownPhase& known, double out_us_per_byte) {
  const std::string& id = known.profile.id;
  const auto plan = source_->poll(id);
  if (!plan) {
    if (!source_->pending(id)) settled_.insert(phase);
    return;
  }
  settled_.insert(phase);
  if (const auto adopted = executor_.adopt(phase, *plan, known, out_us_per_byte); !adopted)
    return log::warn("{}; phase {} goes on without a plan", adopted.error().message, id);
  log::info("phase {}: plan by {}, {:.1f} ms predicted, {:.1f} ms in core", id, plan->policy,
            plan->predicted_ms, plan->in_core_ms);
}

}  // namespace pooch::runtime
