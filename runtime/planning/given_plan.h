// The plan of POOCH_PLAN's file. It serves its own phase under every policy.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/plan.h"
#include "core/result.h"

namespace pooch::runtime {

// What plans are made for.
struct PlanTarget {
  std::string device;             // as in the profile
  std::uint64_t cap = 0;          // bytes of device memory that a plan may use
  std::uint64_t host_budget = 0;  // bytes
};

class GivenPlan {
 public:
  // Error invalid_argument: the file has no plan, or one for more memory than there is.
  Status read(const std::string& path, const PlanTarget& target);
  bool is_for(const std::string& phase) const { return plan_ && plan_->phase == phase; }
  // Where there is one.
  const Plan& plan() const { return *plan_; }
  // PlanSource::take_remark.
  std::string take_remark() { return std::exchange(remark_, {}); }

 private:
  std::optional<Plan> plan_;
  std::string remark_;
};

}  // namespace pooch::runtime
