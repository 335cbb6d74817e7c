// Plans that were made before, one file each in the cache folder: the plan as `pooch plan` writes it, with
// what it was made for as its first member, so that `pooch explain` and POOCH_PLAN read it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/cache_folder.h"
#include "core/plan.h"
#include "core/result.h"

namespace pooch::runtime {

// All that a plan depends on, beside the measured times.
struct PlanIdentity {
  std::string phase, structure, device, policy;  // structure: structure_of(phase); empty: any
  bool placed = true;
  std::uint64_t cap = 0, host_budget = 0;  // bytes
  std::string planner;                     // its version

  std::string to_json() const;
  // What in the plan differs from this; empty: nothing.
  std::string mismatch(const Plan& plan) const;
};

class PlanCache {
 public:
  explicit PlanCache(std::string folder) : folder_(std::move(folder)) {}

  Status trusted() const { return folder_.trusted(); }
  std::string path_of(const PlanIdentity& identity) const;
  // Empty: there is none. Error invalid_argument: there is one, and it is unusable (cut off, unreadable, made
  // for something else, not trusted); the message names the file or folder.
  Result<std::optional<Plan>> find(const PlanIdentity& identity) const;
  // The plan in an entry's text. Error: as for `find`, without the file's name.
  static Result<Plan> plan_in(std::string_view text, const PlanIdentity& identity);
  // Replaces what is there. Error: invalid_argument, the message names the file or folder.
  Status store(const PlanIdentity& identity, const Plan& plan) const;

 private:
  CacheFolder folder_;
};

}  // namespace pooch::runtime
