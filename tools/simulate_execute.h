// The plans of `pooch simulate` carried out: the command once more under each policy.
#pragma once

#include <string>

#include "core/result.h"
#include "run_command.h"
#include "simulate_rows.h"

namespace pooch::tools {

// Whether the policy makes plans. Others decide as memory runs short.
bool follows_plans(const std::string& policy);

struct ExecuteRequest {
  RunOptions capped;  // device, memory and command count
  std::string phase;  // id of the one whose iterations are looked at
};

// Runs the command for every row that has a plan, or needs none, and notes in the row what came of it; before
// that once with memory enough. Error: invalid_argument, the command has too few iterations; else what kept a
// run from being looked at.
Status execute(const ExecuteRequest& request, Simulation& simulation);

}  // namespace pooch::tools
