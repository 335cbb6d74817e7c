// Gets plans for the phases that are known and hands them to the executor: once per iteration, at its start
// or as soon as it is known to be one.
//
// A phase is planned as soon as it has been seen once, from what times there are, and again when measured
// times turn out to be others, or when iterations that follow the plan are short of memory.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/config.h"
#include "core/profile.h"
#include "runtime/execution/executor.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/observe/profiler.h"
#include "runtime/planning/plan_source.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

class Planning {
 public:
  Planning(std::unique_ptr<PlanSource> source, const Config& config, const HandlePool& pool,
           Executor& executor, Profiler& profiler, const tracker::Tracker& tracker)
      : source_(std::move(source)),
        wait_(config.wait_for_plans),
        backing_(config.backing),
        pool_(pool),
        executor_(executor),
        profiler_(profiler),
        tracker_(tracker) {}

  // The calling thread has launched an op, and memory is short: logs once why there is no plan if ops keep
  // coming in an order that does not repeat.
  void note_order();
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
  // What a plan was requested with.
  struct Basis {
    std::uint64_t revision = 0;  // 0: none was asked for
    std::string structure;
    std::vector<double> us;    // by op, with the host's gap before it; empty: the plan existed
    double in_core_ms = 0;     // of such a plan: its own in-core time; 0: not known yet
    std::uint64_t unseen = 0;  // bytes taken by others than its ops
    bool estimated = false;    // from times of other phases
  };
  struct State {
    Basis basis;
    bool settled = false;   // it has its plan, or will have none
    bool outdated = false;  // the plan being made is for what no longer holds
    bool fresh = false;     // plans in the cache are older than the times
    bool crowded = false;   // no plan fits into what others leave
    // Iterations were short of memory under their plan: one for less takes its place if it is faster.
    int shortages = 0;
    std::uint64_t lacking = 0;   // bytes that plans leave free for it
    double short_ms = 0;         // what an iteration took under the plan that is to be replaced; 0: none is
    std::uint64_t short_by = 0;  // bytes more that its replacement leaves free
    bool tried = true;           // the current plan's layout was tested, or need not be
    int layouts = 0;             // plans without a layout, or whose layout is for other places
    bool remaps = false;         // the phase remaps for good
    // A plan whose substitutes are still being tried, and how many iterations it waited.
    std::optional<Plan> unproven;
    int waited = 0;
    int deferred = 0;  // iterations that a plan was not asked for, since formulas were still being tried
  };

  void act(tracker::PhaseIndex phase, const KnownPhase& known, const std::function<Profile()>& profile,
           double out_us_per_byte, Held& held);
  void reconsider(tracker::PhaseIndex phase, State& state, const KnownPhase& known);
  // The one that plans are made for.
  Backing backing(const State& state) const;
  PlanSource::Wish wish(tracker::PhaseIndex phase, const State& state, const KnownPhase& known) const;
  std::uint64_t unseen_bytes(const PhaseProfile& phase) const;
  void drop_substitutes(tracker::PhaseIndex phase, State& state, const KnownPhase& known);
  void relieve_shortage(tracker::PhaseIndex phase, State& state, const KnownPhase& known);
  bool keeps_short_plan(State& state, std::optional<double> instead_ms);
  void try_layout(tracker::PhaseIndex phase, State& state, const KnownPhase& known);
  void await_plan(const State& state, const std::string& id);
  void adopt(tracker::PhaseIndex phase, State& state, Plan plan, const KnownPhase& known,
             double out_us_per_byte, Held& held);
  bool awaits_trials(State& state);
  bool proves(const KnownPhase& known, State& state, const Plan& plan);
  void renew(State& state, const std::string& id);
  static bool differs(const Basis& basis, const KnownPhase& known);
  void explain_disorder(std::string_view which, std::uint64_t ops);

  std::unique_ptr<PlanSource> source_;
  const bool wait_;
  const BackingUse backing_;
  const HandlePool& pool_;
  Executor& executor_;
  Profiler& profiler_;
  const tracker::Tracker& tracker_;
  std::map<tracker::PhaseIndex, State> states_;
  std::optional<tracker::StepIndex> acted_in_;  // the iteration that began there
  std::optional<std::chrono::steady_clock::time_point> acted_at_;
  std::chrono::steady_clock::duration iteration_took_{};  // the one before that
  bool patient_ = true;
  std::uint64_t unordered_ = 0;                 // latest ops that are part of no phase
  std::uint64_t ordered_ = 0, disordered_ = 0;  // all ops: those that are, those that are not
  std::set<std::thread::id> threads_;           // that launched the latter
  bool explained_ = false;
  std::uint64_t replans_ = 0;
};

}  // namespace pooch::runtime
