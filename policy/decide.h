// A policy from inside: problem and rules in, choice out.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "policy/algorithms.h"
#include "policy/planner.h"
#include "policy/timeline.h"

namespace pooch::policy {

struct Question {
  const Problem& problem;
  Rules rules;  // cap, placed; prefetching early
  std::uint64_t seed = 0;
  unsigned effort = 1;           // PlanRequest::effort
  const Choice* near = nullptr;  // of a plan for a little more memory
};
struct Decision {
  Choice choice;
  Rules rules;                          // how the policy moves things
  std::optional<double> bound_us = {};  // Relaxed::bound_us, where the policy asked for it
};

Choice all(const Problem& problem, Class of);
// `of`, but a swap for a map that cannot be recomputed.
Class possible(const MovableMap& map, Class of);

struct Policy {
  PolicyInfo info;
  Decision (*decide)(const Question& question);
  // The policy's choice that needs the least memory.
  Decision (*least)(const Question& question);
};
const std::vector<Policy>& all_policies();

using Decide = Decision (*)(const Question& question);

// A phase with the algorithms that a policy chose, and its decision.
struct Variant {
  Picks picks;
  Problem problem;  // the phase with these algorithms
  Decision decision;
};
struct NumericsPolicy {
  PolicyInfo info;
  std::optional<Preference> preference;  // of all convolutions; empty: layer by layer
  Decide decide = nullptr;               // for maps
};
// vdnn_algorithms.cpp
const std::vector<NumericsPolicy>& all_numerics_policies();
// Where nothing fits, the variant that needs the least memory. Errors: make_problem's.
Result<Variant> choose_algorithms(const NumericsPolicy& policy, const Profile& profile,
                                  const PhaseProfile& phase, const LinkRates& rates, const Rules& rules);

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

// fixed.cpp: microseconds, if there were memory enough.
double in_core_us(const Problem& problem);
// bound.cpp: a linear program's answer for a cap.
struct Relaxed {
  double bound_us;  // no plan can beat it
  Choice choice;    // the linear program's solution, rounded to whole maps; it may not fit
};
// One for every cap, in bytes. Each starts from the solution before, so sort the caps.
std::vector<Relaxed> relax(const Problem& problem, std::span<const std::uint64_t> caps);

// emit.cpp
Plan write_plan(const Problem& problem, const Decision& decision, std::string_view policy);

}  // namespace pooch::policy
