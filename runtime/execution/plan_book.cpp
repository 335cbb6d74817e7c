#include "runtime/execution/plan_book.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {
namespace {

// What either makes of the same inputs is the same: the same calls, reading the same copies of their
// operands.
bool same_replays(const Script& a, const ScriptMap& of_a, const Script& b, const ScriptMap& of_b) {
  return std::equal(of_a.chain.begin(), of_a.chain.end(), of_b.chain.begin(), of_b.chain.end(),
                    [&](std::uint32_t x, std::uint32_t y) {
                      const ScriptReplay &p = a.replays()[x], &q = b.replays()[y];
                      return p.position == q.position && p.formula == q.formula &&
                             std::equal(
                                 p.operands.begin(), p.operands.end(), q.operands.begin(), q.operands.end(),
                                 [](const ReplayPlace& m, const ReplayPlace& n) { return m.kind == n.kind; });
                    });
}

}  // namespace

AdoptedPlan* PlanBook::find(tracker::PhaseIndex phase) {
  const auto found = plans_.find(phase);
  return found == plans_.end() ? nullptr : &found->second;
}

const AdoptedPlan* PlanBook::find(tracker::PhaseIndex phase) const {
  const auto found = plans_.find(phase);
  return found == plans_.end() ? nullptr : &found->second;
}

PlanBook::Followed PlanBook::followed(tracker::PhaseIndex phase) const {
  Followed followed{nullptr, phase};
  if (const auto other = others_.find(phase); other != others_.end())
    followed = {nullptr, other->second.phase, other->second.inserted};
  if (const AdoptedPlan* const plan = find(followed.phase)) followed.script = plan->script.get();
  return followed;
}

AdoptedPlan* PlanBook::of(const Script& script) {
  for (auto& [phase, plan] : plans_)
    if (plan.script.get() == &script) return &plan;
  return nullptr;
}

void PlanBook::put(tracker::PhaseIndex phase, AdoptedPlan plan) {
  AdoptedPlan& place = plans_[phase];
  if (place.script != nullptr) replaced_.push_back(std::move(place.script));
  plan.began = place.began;
  place = std::move(plan);
}

void PlanBook::begin_trust(tracker::PhaseIndex phase, AdoptedPlan& plan) const {
  const Script& script = *plan.script;
  MapTrust& trust = plan.trust;
  trust.compared.assign(script.maps().size(), 0);
  trust.never_enough = plan.known.any_size;
  const auto refused = refused_.find(phase);
  for (const ScriptMap& map : script.maps()) {
    trust.dropped.push_back(!map.chain.empty());
    trust.refused.push_back(refused != refused_.end() && refused->second.contains(map.buffer));
  }
  const AdoptedPlan* const before = find(phase);
  if (before == nullptr) return;
  const Script& earlier = *before->script;
  for (std::size_t old = 0; old < earlier.maps().size(); ++old) {
    const auto same = std::find_if(script.maps().begin(), script.maps().end(), [&](const ScriptMap& map) {
      return map.buffer == earlier.maps()[old].buffer && !map.chain.empty() &&
             same_replays(script, map, earlier, earlier.maps()[old]);
    });
    if (same != script.maps().end())
      trust.compared[static_cast<std::size_t>(same - script.maps().begin())] = before->trust.compared[old];
  }
}

void PlanBook::blame(const AdoptedPlan& plan, std::uint32_t map) {
  std::set<std::int32_t> used;
  for (const std::uint32_t index : plan.script->maps()[map].chain)
    if (const ScriptReplay& step = plan.script->replays()[index]; step.formula) used.insert(step.position);
  for (const auto& [phase, other] : plans_) {
    if (&other != &plan) continue;
    disproved_[phase].insert(used.begin(), used.end());
    if (used.empty()) refused_[phase].insert(plan.script->maps()[map].buffer);
  }
}

std::set<std::int32_t> PlanBook::take_disproved(tracker::PhaseIndex phase) {
  return std::exchange(disproved_[phase], {});
}

}  // namespace pooch::runtime
