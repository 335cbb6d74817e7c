// A plan that says where everything lies.
#pragma once

#include <string>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"
#include "core/result.h"
#include "policy/planner.h"

namespace pooch::tools {

struct PlacedRequest {
  std::string phase, policy;  // phase: empty, the first one
  policy::PlanRequest plan;
  std::uint64_t room = 0;      // bytes that everything may take together; 0: as much as a plan
  std::vector<Plan> beside;    // plans of other phases, which share the layout
  std::optional<Plan> follow;  // this plan is laid out, and none is made
};

// Whether the profile knows where buffers of the phase lie, without which there is no layout. No phase: of
// any.
bool knows_places(const Profile& profile, const std::string& phase);

// As policy::make_plan, and with a layout where the profile knows the places of its buffers and one is asked
// for. Where no layout fits and is worth it, in any plan for a little less memory: an unplaced plan. Error:
// invalid_argument, as make_plan, or a plan in the request is not of this profile.
Result<Plan> make_placed_plan(const Profile& profile, const PlacedRequest& request);

}  // namespace pooch::tools
