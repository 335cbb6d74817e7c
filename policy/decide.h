// What a policy is, inside: problem and rules in, choice out.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "policy/planner.h"
#include "policy/timeline.h"

namespace pooch::policy {

struct Question {
  const Problem& problem;
  Rules rules;  // cap and backing; prefetching early
  std::uint64_t seed = 0;
};
struct Decision {
  Choice choice;
  Rules rules;  // how the policy moves things
};

Choice all(const Problem& problem, Class of);
// `of`, where the map can be recomputed at all; otherwise a swap.
Class possible(const MovableMap& map, Class of);

struct Policy {
  PolicyInfo info;
  Decision (*decide)(const Question& question);
  // The policy's choice that needs the least memory.
  Decision (*least)(const Question& question);
};
const std::vector<Policy>& all_policies();

// fixed.cpp
Decision keep(const Question& question);
Decision swap_all_unscheduled(const Question& question);
Decision swap_all(const Question& question);
Decision lms(const Question& question);
Decision lms_sync(const Question& question);
// vdnn.cpp
Decision vdnn_all(const Question& question);
Decision vdnn_conv(const Question& question);
Decision vdnn_dyn(const Question& question);
// superneurons.cpp
Decision superneurons(const Question& question);
Decision superneurons_least(const Question& question);
// pooch.cpp
Decision swap_opt(const Question& question);
Decision pooch(const Question& question);
// hybrid.cpp
Decision hybrid(const Question& question);

// fixed.cpp: microseconds, were there memory enough.
double in_core_us(const Problem& problem);
// bound.cpp: microseconds that no plan can beat.
double lower_bound(const Problem& problem, const Rules& rules);
// What the same linear program would do, rounded to whole maps; it may not fit.
Choice relaxed_choice(const Problem& problem, const Rules& rules);

// emit.cpp
Plan write_plan(const Problem& problem, const Decision& decision, std::string_view policy);

}  // namespace pooch::policy
