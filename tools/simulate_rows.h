// What `pooch simulate` shows: a row per policy.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"

namespace pooch::tools {

// One policy with one backing.
struct Trial {
  std::optional<Plan> plan;
  double seconds = 0;  // that planning took, without the bound
  std::string why;     // there is no plan
};
struct SimulatedPolicy {
  std::string policy;
  std::array<Trial, 2> trials;  // by Backing
  // The better one; of two without a plan the first.
  const Trial& best() const;
};
struct Simulation {
  double in_core_ms = 0;               // an iteration with memory enough
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
