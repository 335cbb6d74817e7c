// The program that makes plans, at work beside this one.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/config.h"
#include "core/files.h"
#include "core/plan.h"
#include "core/profile.h"
#include "core/result.h"
#include "runtime/planning/plan_cache.h"
#include "runtime/processes/detached_process.h"

namespace pooch::runtime {

// What a planner is asked for.
struct PlanOrder {
  const PlanIdentity& identity;
  const Profile& profile;
  std::uint64_t room = 0;                  // bytes for its layout
  const std::vector<const Plan*>& beside;  // plans of other phases that share it
  const Plan* follow = nullptr;            // the plan that is to have a layout; nullptr: a new plan
};

// A planner that was started.
class PlannerRun {
 public:
  // `begun`: no later than its alarm, which rings after `seconds`.
  PlannerRun(DetachedProcess process, OpenFile plan, std::chrono::steady_clock::time_point begun,
             unsigned seconds);

  // Never waits. A planner that takes too long is ended.
  bool ended();
  // As long as it may take, and no longer than `most`.
  void wait(std::chrono::steady_clock::duration most);
  void kill() { process_.kill(); }
  std::chrono::duration<double> took() const { return std::chrono::steady_clock::now() - begun_; }
  // Its plan as JSON. Error: what it says instead, or that it says nothing.
  Result<std::string> result(const std::string& planner) const;

 private:
  DetachedProcess process_;
  OpenFile plan_;  // that it writes to
  unsigned seconds_;
  std::chrono::steady_clock::time_point begun_, until_;
};

class Planner {
 public:
  // Where none is named: the `pooch` beside `library_folder`. `seconds`: that one run may take.
  Planner(const Config& config, const std::string& library_folder, unsigned seconds);

  bool there() const { return !path_.empty(); }
  const std::string& missing() const { return missing_; }  // why there is none
  const std::string& path() const { return path_; }
  const std::string& version() const { return version_; }
  Result<PlannerRun> start(const PlanOrder& order) const;

 private:
  std::string path_, missing_, version_;
  std::vector<std::string> environment_;
  unsigned seconds_;
};

}  // namespace pooch::runtime
