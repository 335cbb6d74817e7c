// What `pooch simulate` shows: a row per policy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"

namespace pooch::tools {

// The plan of one policy.
struct Trial {
  std::optional<Plan> plan;
  double seconds = 0;  // that planning took, without the bound
  std::string why;     // there is no plan
};
// One policy carried out.
struct Execution {
  std::optional<double> ms;      // the median iteration, from its begin to that of the next
  std::uint64_t peak = 0;        // bytes of device memory, of the whole run
  std::uint64_t iterations = 0;  // that the median is of
  std::string why;               // there is no time
};
struct SimulatedPolicy {
  std::string policy;
  bool makes_plans = true;  // else it decides as memory runs short, and has no trial
  Trial trial;
  std::optional<Execution> execution;  // nothing: it was not carried out
};
struct Simulation {
  bool executed = false;               // whether the rows were carried out
  double in_core_ms = 0;               // the median iteration of a run with memory enough, begin to begin
  double in_core_ops_ms = 0;           // of it, from the first op's start to the last one's end, as measured
  std::optional<std::uint64_t> batch;  // images per iteration, where the command told
  std::vector<SimulatedPolicy> rows;
};

struct SimulationInput {
  const Profile& profile;                   // cap_bytes is what plans may use
  std::string phase;                        // its id
  std::optional<double> link_out, link_in;  // bytes per second, where the profile has none
};
// Error: invalid_argument, nothing can be planned from the profile.
Result<SimulatedPolicy> plan_policy(const SimulationInput& input, const std::string& policy);

std::string simulation_table(const Simulation& simulation);
std::string simulation_json(const Simulation& simulation);

}  // namespace pooch::tools
