// Gets plans for the phases that are known and hands them to the executor: once per iteration, at its start
// or as soon as it is known to be one.
//
// A phase is planned as soon as it has been seen once, from what times there are, and again when measured
// times turn out to be others, or when iterations that follow the plan are short of memory. phase_plan.h
// decides; this asks the source, the executor and the profiler what there is to see, and does what follows.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/config.h"
#include "core/profile.h"
#include "runtime/execution/executor.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/observe/profiler.h"
#include "runtime/planning/disorder.h"
#include "runtime/planning/phase_plan.h"
#include "runtime/planning/plan_source.h"
#include "runtime/planning/standstill.h"
#include "runtime/script/plan_room.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

class Planning {
 public:
  Planning(std::unique_ptr<PlanSource> source, const Config& config, const HandlePool& pool,
           Executor& executor, Profiler& profiler, const tracker::Tracker& tracker)
      : source_(std::move(source)),
        wait_(config.wait_for_plans),
        pool_(pool),
        executor_(executor),
        profiler_(profiler),
        tracker_(tracker),
        disorder_(tracker.iterations()) {}

  // The calling thread has launched an op, and memory is short.
  void note_order() { disorder_.note(); }
  // An iteration has begun since the last act().
  bool wants_to_act() const;
  // ... and a phase that is to be planned has no plan yet.
  bool wants_profile() const;
  // Requests and adopts plans. `profile` is asked where a planner is to be started. `out_us_per_byte`: of
  // copies to the host, 0 where it is not known. May release `held` and take it again.
  void act(const std::function<Profile()>& profile, double out_us_per_byte, Held& held);
  // At the program's end.
  void abandon();

  std::uint64_t replans() const { return replans_; }  // plans made again because times had changed

 private:
  void note_standstill();
  bool act(tracker::PhaseIndex phase, const KnownPhase& known, const std::function<Profile()>& profile,
           double out_us_per_byte, Held& held);
  void reconsider(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known);
  void try_layout(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known);
  void relieve_shortage(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known);
  void drop_substitutes(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known);

  bool follows_another(tracker::PhaseIndex phase, const KnownPhase& known);
  bool renew(PhasePlan& plan, const std::string& id);
  bool awaits_trials(PhasePlan& plan);
  void request(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known,
               const std::function<Profile()>& profile);
  PlanSource::Wish wish(tracker::PhaseIndex phase, const PhasePlan& plan, const KnownPhase& known,
                        const Basis& basis) const;
  CapUse cap_use() const { return {pool_.cap(), pool_.outside(), pool_.most_outside()}; }
  void await_plan(const PhasePlan& plan, const std::string& id);

  void judge(tracker::PhaseIndex phase, PhasePlan& plan, const KnownPhase& known, double out_us_per_byte,
             Held& held);
  Profiler::Proof proof_of(const Plan& plan, const KnownPhase& known);
  void adopt(tracker::PhaseIndex phase, PhasePlan& plan, Plan came, const KnownPhase& known,
             double out_us_per_byte, Held& held);

  std::unique_ptr<PlanSource> source_;
  const bool wait_;
  const HandlePool& pool_;
  Executor& executor_;
  Profiler& profiler_;
  const tracker::Tracker& tracker_;
  Disorder disorder_;
  Standstill standstill_;
  std::map<tracker::PhaseIndex, PhasePlan> plans_;
  std::optional<tracker::StepIndex> acted_in_;  // the iteration that began there
  std::optional<std::chrono::steady_clock::time_point> acted_at_;
  std::chrono::steady_clock::duration iteration_took_{};  // the one before that
  bool patient_ = true;
  std::uint64_t replans_ = 0;
};

}  // namespace pooch::runtime
