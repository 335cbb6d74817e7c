#include "runtime/planning/planning.h"

#include <algorithm>
#include <utility>

#include "core/log.h"

namespace pooch::runtime {
namespace {

using Kind = Command::Kind;

Command tell(PhasePlan& plan, Event event) {
  Transition made = next(std::move(plan), std::move(event));
  plan = std::move(made.phase);
  return std::move(made.command);
}

template <class Stage>
bool is(const PhasePlan& plan) {
  return std::holds_alternative<Stage>(plan.stage);
}

}  // namespace

void Planning::abandon() {
  disorder_.finish();
  source_->abandon();
}

bool Planning::wants_to_act() const {
  const auto where = tracker_.iterations().where();
  return where && where->start != acted_in_;
}

bool Planning::wants_profile() const {
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const auto plan = plans_.find(tracker::PhaseIndex{i});
    if (plan != plans_.end() && (plan->second.settled() || executor_.follows_another(tracker::PhaseIndex{i})))
      continue;
    if (profiler_.plannable(tracker::PhaseIndex{i}) != nullptr) return true;
  }
  return false;
}

void Planning::act(const std::function<Profile()>& profile, double out_us_per_byte, Held& held) {
  if (const auto where = tracker_.iterations().where()) acted_in_ = where->start;
  const auto now = std::chrono::steady_clock::now();
  if (acted_at_) iteration_took_ = now - *acted_at_;
  acted_at_ = now;
  note_standstill();
  for (std::uint32_t i = 0; i < tracker_.iterations().phases(); ++i) {
    const tracker::PhaseIndex phase{i};
    const KnownPhase* known = profiler_.plannable(phase);
    while (known != nullptr && act(phase, *known, profile, out_us_per_byte, held))
      known = profiler_.plannable(phase);
  }
}

void Planning::note_standstill() {
  const auto where = tracker_.iterations().where();
  if (!where) return;
  const ExecutorCounts counts = executor_.counts();
  const std::string line = standstill_.note(
      {counts.planned_iterations, counts.left, tracker_.iterations().phases(), counts.left_at,
       source_->pending(phase_id(tracker_.iterations().phase(where->phase)))});
  if (!line.empty()) log::warn("{}", line);
}

// True: there is more to do in this iteration.
bool Planning::act(tracker::PhaseIndex phase, const KnownPhase& known,
                   const std::function<Profile()>& profile, double out_us_per_byte, Held& held) {
  const std::string id = known.profile.id;
  PhasePlan& plan = plans_[phase];
  plan.given = source_->given(id);
  reconsider(phase, plan, known);
  try_layout(phase, plan, known);
  relieve_shortage(phase, plan, known);
  drop_substitutes(phase, plan, known);
  if (is<stage::Overtaken>(plan)) (void)renew(plan, id);
  if (plan.settled() || awaits_trials(plan)) return false;
  if (is<stage::Wanted>(plan) && follows_another(phase, known)) return false;
  if (is<stage::Wanted>(plan)) request(phase, plan, known, profile);
  await_plan(plan, id);
  if (!is<stage::Proving>(plan))
    if (auto came = source_->poll(id)) (void)tell(plan, seen::Came{std::move(*came)});
  if (is<stage::Overtaken>(plan)) return false;
  if (is<stage::Proving>(plan)) {
    judge(phase, plan, known, out_us_per_byte, held);
    const KnownPhase* const still = profiler_.plannable(phase);  // the lock may have been released
    return plan.untested && still != nullptr && still->settled;
  }
  return renew(plan, id);
}

// The program does a little more in some iterations. Those need no plan of their own.
bool Planning::follows_another(tracker::PhaseIndex phase, const KnownPhase& known) {
  if (executor_.follows_another(phase)) return true;
  if (known.any_size || source_->given(known.profile.id)) return false;
  const tracker::Iterations& iterations = tracker_.iterations();
  for (const auto& [other, plan] : plans_) {
    if (other == phase || executor_.follows_another(other)) continue;
    if (iterations.phase(other).seen < iterations.phase(phase).seen) continue;
    const KnownPhase* const shorter = profiler_.plannable(other);
    if (shorter == nullptr || shorter->any_size) continue;
    const auto inserted = tracker::inserted_ops(shorter->profile, known.profile);
    if (!inserted) continue;
    executor_.follow(phase, other, *inserted);
    log::info("phase {}: follows the plan of phase {}; it has {} ops more, from {} on", known.profile.id,
              shorter->profile.id, inserted->count, inserted->at);
    return true;
  }
  return false;
}

// Whether another plan can be asked for now, and is to be.
bool Planning::renew(PhasePlan& plan, const std::string& id) {
  if (source_->pending(id) || tell(plan, seen::SourceIdle{}).kind != Kind::forget) return false;
  source_->forget(id);
  return true;
}

// --- whether the plan at hand will do

// Whether what was planned for is still so.
void Planning::reconsider(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known) {
  const Basis* const basis = plan.basis();
  if (basis == nullptr || basis->revision == known.revision || is<stage::Overtaken>(plan)) return;
  if (!differs(*basis, known)) {
    (void)tell(plan, seen::StillHolds{known.revision});
    executor_.refresh(phase, known);
    return;
  }
  log::info("phase {}: its times have changed; it is planned again", known.profile.id);
  (void)tell(plan, seen::Changed{});
  ++replans_;
}

// Before an iteration is spent on a plan that cannot be laid out. A plan without a layout is followed all the
// same while another one is made.
void Planning::try_layout(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known) {
  if (!plan.settled() || !known.settled || executor_.awaits_places()) return;
  if (plan.untested) {
    (void)tell(plan, seen::LayoutTested{});
    executor_.try_layout();
  }
  if (const auto lack = executor_.take_lack(phase)) (void)tell(plan, seen::LayoutLacks{*lack});
}

// Under the plan at hand Demand is asked for memory again and again: it was made for more than there is.
void Planning::relieve_shortage(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known) {
  if (!plan.settled() || plan.crowded || plan.given) return;
  const auto takes_ms = executor_.take_shortage(phase);
  if (!takes_ms) return;
  const std::uint64_t step = std::max(pool_.cap() / 64 / page * page, page);
  if (tell(plan, seen::Shortage{*takes_ms, step, unseen_bytes(known.profile, cap_use())}).kind !=
      Kind::plan_for_less)
    return;
  log::info("phase {}: {:.1f} ms, since memory is short under its plan; it is planned for less",
            known.profile.id, *takes_ms);
  ++replans_;
}

// Verification has swapped what they made meanwhile.
void Planning::drop_substitutes(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known) {
  const auto disproved = executor_.take_disproved(phase);
  if (disproved.empty() || tell(plan, seen::Disproved{}).kind != Kind::plan_without) return;
  log::info("phase {}: {} calls cannot be made again by shorter ways; it is planned without those",
            known.profile.id, disproved.size());
  profiler_.disprove(phase, disproved);
  ++replans_;
}

// --- another one

// What is being tried now is worth a plan that knows of it.
bool Planning::awaits_trials(PhasePlan& plan) {
  if (!is<stage::Wanted>(plan)) return false;
  if (wait_) profiler_.trials().await();
  return profiler_.trials().pending() && tell(plan, seen::TrialsPending{}).kind == Kind::wait;
}

void Planning::request(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known,
                       const std::function<Profile()>& profile) {
  Basis basis{known.revision, structure_of(known.profile), {}, 0, 0};
  if (!plan.crowded) basis.unseen = unseen_bytes(known.profile, cap_use());
  const bool made_for_it = source_->request(known.profile.id, profile, wish(phase, plan, known, basis));
  if (made_for_it) basis.us = op_times(known.profile);
  (void)tell(plan, seen::Requested{std::move(basis)});
}

PlanSource::Wish Planning::wish(tracker::PhaseIndex phase, const PhasePlan& plan, const KnownPhase& known,
                                const Basis& basis) const {
  PlanSource::Wish wish;
  wish.structure = basis.structure;
  wish.placed = !plan.unplaced() && executor_.may_place();
  wish.reserve = plan.lacking + basis.unseen;
  if (wish.placed) {
    const PlanRoom with = room_with_layout(cap_use(), basis.unseen, plan.lacking);
    wish.reserve = with.reserve;
    wish.room = with.room;
    wish.beside = executor_.plans_beside(phase);
  }
  constexpr std::size_t most_beside = 12;  // plans that a planner is given
  if (wish.beside.size() > most_beside) wish.placed = false;
  wish.lay_out = plan.layouts > 0 && !plan.unplaced();
  wish.fresh = plan.fresh;
  wish.provisional = known.profile.measured == 0;
  wish.optional = plan.relief() || basis.unseen > 0 || plan.layouts > 0;
  return wish;
}

// While layouts are tried iterations are slow, since memory is mapped anew all the time. A planner that takes
// less time is waited for; where one was not ready by then, no other is.
void Planning::await_plan(const PhasePlan& plan, const std::string& id) {
  if (wait_) return source_->settle(id);
  if (plan.layouts > 0 && patient_) patient_ = source_->settle(id, iteration_took_ / 2);
}

// --- one that has come

void Planning::judge(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known,
                     double out_us_per_byte, Held& held) {
  const Profiler::Proof proof = proof_of(std::get<stage::Proving>(plan.stage).plan, known);
  Command command = tell(plan, seen::Judged{proof});
  constexpr const char* why = "a plan makes calls again in a way that was not seen to make their bits";
  if (command.kind == Kind::go_without)
    log::warn("phase {}: {}; it goes on without it", known.profile.id, why);
  if (command.kind == Kind::plan_anew) log::info("phase {}: {}", known.profile.id, why);
  if (command.kind == Kind::adopt) adopt(phase, plan, std::move(*command.plan), known, out_us_per_byte, held);
}

// A plan from elsewhere may be of another library, which rounds in another way. What is being tried still is
// waited for; what is not so is planned anew.
Profiler::Proof Planning::proof_of(const Plan& plan, const KnownPhase& known) {
  std::map<std::uint32_t, Formula> formulas;
  for (const auto& [position, actions] : plan.before)
    for (const PlanAction& action : actions)
      if (action.formula) formulas.emplace(action.subject, *action.formula);
  if (formulas.empty()) return Profiler::Proof::yes;
  if (wait_) profiler_.trials().await();
  return profiler_.proves(known, formulas);
}

void Planning::adopt(tracker::PhaseIndex phase, PhasePlan& plan, Plan came, const KnownPhase& known,
                     double out_us_per_byte, Held& held) {
  const std::string id = known.profile.id;  // `known` may change while the lock is released
  const Adoption adoption{came, known, out_us_per_byte, !plan.unplaced()};
  if (const auto adopted = executor_.adopt(phase, adoption, held); !adopted)
    return log::warn("{}; phase {} goes on without it", adopted.error().message, id);
  (void)tell(plan, seen::Adopted{});
  if (const std::string remark = source_->take_remark(); !remark.empty()) log::warn("{}", remark);
  log::info("phase {}: plan by {}, {:.1f} ms predicted, {:.1f} ms in core", id, came.policy,
            came.predicted_ms, came.in_core_ms);
}

}  // namespace pooch::runtime
