#include "runtime/planning/phase_plan.h"

#include <utility>

namespace pooch::runtime {
namespace {

using Kind = Command::Kind;

template <class Of>  // Stage, const or not
auto basis_in(Of& stage) {
  return std::visit(
      [](auto& now) -> decltype(&std::get<stage::Settled>(stage).basis) {
        if constexpr (requires { now.basis; })
          return &now.basis;
        else
          return nullptr;
      },
      stage);
}

// Without a request there is nothing that could no longer hold.
void overtake(PhasePlan& phase, std::optional<Relief> relief) {
  if (Basis* const basis = basis_in(phase.stage)) {
    Basis kept = std::move(*basis);
    phase.stage = stage::Overtaken{std::move(kept), relief};
  }
}

// The plan that was asked for has come, or there is none (empty). One that is short of memory may still be
// better than the one for less.
bool keeps_short_plan(PhasePlan& phase, const std::optional<Relief>& relief,
                      std::optional<double> instead_ms) {
  if (!relief || (instead_ms && *instead_ms < relief->under_current_ms)) return false;
  phase.lacking -= relief->bytes;
  return true;
}

// Each takes the phase as it is, changes it, and says what is to be done.

Command on(PhasePlan& phase, const seen::StillHolds& now) {
  if (Basis* const basis = basis_in(phase.stage)) basis->revision = now.revision;
  return {};
}

Command on(PhasePlan& phase, const seen::Changed&) {
  phase.fresh = true;
  overtake(phase, phase.relief());
  return {};
}

Command on(PhasePlan& phase, const seen::LayoutTested&) {
  phase.untested = false;
  return {};
}

Command on(PhasePlan& phase, const seen::LayoutLacks& lack) {
  if (!phase.settled()) return {};
  phase.lacking += lack.bytes;
  ++phase.layouts;
  phase.fresh = true;
  overtake(phase, std::nullopt);
  return {};
}

Command on(PhasePlan& phase, const seen::Shortage& shortage) {
  const auto* const settled = std::get_if<stage::Settled>(&phase.stage);
  if (settled == nullptr || phase.shortages == most_shortages) return {};
  const std::uint64_t step = shortage.step << phase.shortages++;
  // Plans leave what others take alone anyway.
  const Relief relief{shortage.iteration_ms, shortage.unseen > settled->basis.unseen ? 0 : step};
  phase.lacking += relief.bytes;
  overtake(phase, relief);
  return {Kind::plan_for_less};
}

Command on(PhasePlan& phase, const seen::Disproved&) {
  if (phase.given) return {};
  phase.fresh = true;
  overtake(phase, phase.relief());
  return {Kind::plan_without};
}

// Without room beside what others take, a plan for more memory than there is still moves most of what has to
// move.
Command on(PhasePlan& phase, const seen::SourceIdle&) {
  if (const auto* const overtaken = std::get_if<stage::Overtaken>(&phase.stage)) {
    phase.stage = stage::Wanted{overtaken->relief};
    return {Kind::forget};
  }
  auto* const asked = std::get_if<stage::Asked>(&phase.stage);
  if (asked == nullptr) return {};
  stage::Asked before = std::move(*asked);
  if (keeps_short_plan(phase, before.relief, std::nullopt) || before.basis.unseen == 0) {
    phase.stage = stage::Settled{std::move(before.basis)};
    return {};
  }
  phase.crowded = true;
  phase.stage = stage::Wanted{};
  return {Kind::forget};
}

Command on(PhasePlan& phase, const seen::TrialsPending&) {
  if (!std::holds_alternative<stage::Wanted>(phase.stage) || phase.deferred == most_deferred) return {};
  ++phase.deferred;
  return {Kind::wait};
}

Command on(PhasePlan& phase, seen::Requested& requested) {
  if (const auto* const wanted = std::get_if<stage::Wanted>(&phase.stage))
    phase.stage = stage::Asked{std::move(requested.basis), wanted->relief};
  return {};
}

Command on(PhasePlan& phase, seen::Came& came) {
  if (auto* const asked = std::get_if<stage::Asked>(&phase.stage)) {
    stage::Asked before = std::move(*asked);
    phase.stage = stage::Proving{std::move(before.basis), before.relief, std::move(came.plan)};
  }
  return {};
}

Command on(PhasePlan& phase, const seen::Judged& judged) {
  using Proof = Profiler::Proof;
  auto* const proving = std::get_if<stage::Proving>(&phase.stage);
  if (proving == nullptr) return {};
  if (judged.proof == Proof::not_yet && proving->waited++ < most_waited) return {Kind::wait};
  if (judged.proof != Proof::yes && !phase.given) {
    phase.fresh = true;
    overtake(phase, proving->relief);
    return {Kind::plan_anew};
  }
  stage::Proving before = std::move(*proving);
  const bool adopts =
      judged.proof == Proof::yes && !keeps_short_plan(phase, before.relief, before.plan.predicted_ms);
  if (adopts && before.basis.us.empty()) before.basis.in_core_ms = before.plan.in_core_ms;
  phase.stage = stage::Settled{std::move(before.basis)};
  if (judged.proof != Proof::yes) return {Kind::go_without};
  if (!adopts) return {};
  if (phase.unplaced()) before.plan.layout.reset();
  return {Kind::adopt, std::move(before.plan)};
}

Command on(PhasePlan& phase, const seen::Adopted&) {
  phase.untested = true;
  return {};
}

}  // namespace

const Basis* PhasePlan::basis() const {
  return basis_in(stage);
}

std::optional<Relief> PhasePlan::relief() const {
  return std::visit(
      [](const auto& now) -> std::optional<Relief> {
        if constexpr (requires { now.relief; })
          return now.relief;
        else
          return std::nullopt;
      },
      stage);
}

Transition next(PhasePlan from, Event event) {
  Command command = std::visit([&](auto& what) { return on(from, what); }, event);
  return {std::move(from), std::move(command)};
}

}  // namespace pooch::runtime
