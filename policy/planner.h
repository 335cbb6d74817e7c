// The planner's interface: a phase's profile in, a plan out. Pure: equal profile, request and seed give an
// equal plan.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"

namespace pooch::policy {

struct PolicyInfo {
  std::string_view name;
  std::string_view source;  // paper and section
  std::string_view line;    // what it does
};
// In the order in which they are shown.
const std::vector<PolicyInfo>& policies();
// Those that give convolutions other algorithms and so change the numbers: only on request, never executed,
// and not part of policies().
const std::vector<PolicyInfo>& numerics_policies();

struct PlanRequest {
  std::uint64_t memory = 0;                 // bytes of device memory that the plan may use
  std::optional<double> link_out, link_in;  // bytes per second instead of what was measured
  std::uint64_t seed = 0;
  unsigned effort = 1;  // multiplies the number of searches; most policies make none. 0: none at all
  // A layout is made for the plan: its moves map no memory. False: they are priced with what mapping costs.
  bool placed = true;
  bool bound = true;            // computes Plan::bound_ms, for the program's own algorithms
  bool allow_numerics = false;  // numerics_policies() are allowed
  std::uint64_t cap = 0;        // that pieces of maps are shares of (core/pages.h); 0: memory
};

// Whether the program tried algorithms for the phase's convolutions. If not, numerics_policies() keep the
// program's own.
bool has_other_algorithms(const Profile& profile, const PhaseProfile& phase);

// `phase`: its id; empty for the first. Errors: invalid_argument for an unknown phase or policy, a link rate
// of 0, a profile without times, a policy that is not allowed; out_of_memory with the smallest memory that
// works for this policy.
Result<Plan> make_plan(const Profile& profile, std::string_view phase, std::string_view policy,
                       const PlanRequest& request);

// Plans of one phase for less and less memory. Where a policy searches, each after the first is looked for
// near the one before, which takes a fraction of the time. The profile has to outlive this.
class PlanSeries {
 public:
  // Errors: make_plan's.
  static Result<PlanSeries> make(const Profile& profile, std::string_view phase, std::string_view policy,
                                 const PlanRequest& request);
  PlanSeries(PlanSeries&&) noexcept;
  PlanSeries& operator=(PlanSeries&&) noexcept;
  ~PlanSeries();

  // `memory`: bytes, in place of PlanRequest::memory. Errors: out_of_memory, as make_plan's.
  Result<Plan> next(std::uint64_t memory);
  // The least memory that has a plan, in bytes, to within the mapping granularity. Errors: make_plan's.
  Result<std::uint64_t> least() const;

 private:
  struct State;
  explicit PlanSeries(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace pooch::policy
