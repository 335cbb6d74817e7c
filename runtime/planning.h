// Gets plans for the phases that have been measured and hands them to the executor, between two iterations.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "core/profile.h"
#include "runtime/executor.h"
#include "runtime/plan_source.h"
#include "runtime/profiler.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

class Planning {
 public:
  // `wait`: plans are waited for, so that they are adopted at the same iteration in every run.
  Planning(std::unique_ptr<PlanSource> source, bool wait, Executor& executor, Profiler& profiler,
           const tracker::Tracker& tracker)
      : source_(std::move(source)),
        wait_(wait),
        executor_(executor),
        profiler_(profiler),
        tracker_(tracker) {}

  // The program is between two iterations, and a phase may still get a plan.
  bool wants_to_act() const;
  // ... and a phase that is to be planned has no plan yet.
  bool wants_profile() const;
  // Requests and adopts plans. `profile` is asked where a planner is to be started.
  // `out_us_per_byte`: of copies to the host, 0 where it is not known.
  void act(const std::function<Profile()>& profile, double out_us_per_byte);
  // At the program's end.
  void abandon() { source_->abandon(); }

 private:
  void adopt(tracker::PhaseIndex phase, const KnownPhase& known, double out_us_per_byte);

  std::unique_ptr<PlanSource> source_;
  const bool wait_;
  Executor& executor_;
  Profiler& profiler_;
  const tracker::Tracker& tracker_;
  struct Retry {
    std::uint64_t reserve = 0;  // bytes
    int times = 0;
  };
  void retry(tracker::PhaseIndex phase, const std::string& id);

  std::map<tracker::PhaseIndex, Retry> retries_;  // plans that could not be laid out
  std::set<tracker::PhaseIndex> settled_;         // they have their plan, or will have none
};

}  // namespace pooch::runtime
