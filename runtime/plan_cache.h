// Plans that were made before, one file each in the cache folder: the plan as `pooch plan` writes it, with
// what it was made for as its first member, so that `pooch explain` and POOCH_PLAN read it too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/plan.h"
#include "core/result.h"

namespace pooch::runtime {

// All that a plan depends on, beside the measured times.
struct PlanIdentity {
  std::string phase, structure, device, policy;  // structure: structure_of(phase); empty: any
  Backing backing = Backing::alias;
  std::uint64_t cap = 0, host_budget = 0;  // bytes
  std::string planner;                     // its version

  std::string to_json() const;
  // What in the plan is other than asked for; empty: nothing.
  std::string mismatch(const Plan& plan) const;
};

// What others may write is not trusted, because a plan decides what becomes of the program's data: the folder
// and every entry must belong to the user or to root, and neither their group nor anybody else may write
// there. No sticky bit makes up for that.
class PlanCache {
 public:
  // `folder` is made (0700) when the first plan is stored; empty: nothing is ever found or kept.
  explicit PlanCache(std::string folder) : folder_(std::move(folder)) {}

  // Error: invalid_argument, the folder is there and not to be trusted; the message names it.
  Status trusted() const;
  std::string path_of(const PlanIdentity& identity) const;
  // Empty: there is none. Error invalid_argument: there is one, and it is of no use (cut off, unreadable,
  // made for something else, not to be trusted); the message names the file or folder.
  Result<std::optional<Plan>> find(const PlanIdentity& identity) const;
  // The plan in an entry's text. Error: as for `find`, without the file's name.
  static Result<Plan> plan_in(std::string_view text, const PlanIdentity& identity);
  // Replaces what is there. Error: invalid_argument, the message names the file or folder.
  Status store(const PlanIdentity& identity, const Plan& plan) const;

 private:
  std::string folder_;
};

// POOCH_CACHE (`chosen`) made absolute, else $XDG_CACHE_HOME/pooch, else $HOME/.cache/pooch, else empty.
std::string cache_folder(const std::string& chosen);

}  // namespace pooch::runtime
