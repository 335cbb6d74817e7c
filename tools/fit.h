// What a program would take under one cap or another: what `pooch fit` shows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/function_ref.h"
#include "core/plan.h"
#include "core/profile.h"
#include "core/result.h"
#include "policy/planner.h"

namespace pooch::tools {

// A cap of device memory, in bytes, and the plan that is followed under it.
struct FitRow {
  std::uint64_t cap = 0;
  double ms = 0, in_core_ms = 0;  // of an iteration of the main phase; 0: there is no plan
  std::uint64_t host_bytes = 0;   // page-locked
};
struct Fit {
  bool training = true;                     // the main phase has a backward pass
  bool fits = false;                        // all stays on the device under the profile's cap
  std::uint64_t smallest = 0, in_core = 0;  // caps: the least with a plan, and where everything stays
  std::vector<FitRow> rows;                 // the largest cap first
};

// What the runtime would let a plan use under `cap`, of a phase of the profile: bytes.
std::uint64_t memory_for_plan(std::uint64_t cap, const Profile& profile, const PhaseProfile& phase);
// The least cap, in whole MiB, that leaves so much for a plan.
std::uint64_t cap_for_memory(std::uint64_t memory, const Profile& profile, const PhaseProfile& phase);

// `caps`: those to show, in bytes; none: some shares of the need. `progress` is called with how many of how
// many rows there are. Errors: invalid_argument, the profile has no times, or the link was not measured.
Result<Fit> fit(const Profile& profile, std::vector<std::uint64_t> caps, const std::string& policy,
                FunctionRef<void(std::size_t, std::size_t)> progress);

// `command`: to be run, as it was written.
std::string fit_text(const Fit& fit, const Profile& profile, const std::string& command);
std::string fit_json(const Fit& fit, const Profile& profile, const std::string& command);

}  // namespace pooch::tools
