// What a plan comes to, as numbers and words; for the commands that show plans.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "core/plan.h"

namespace pooch::tools {

inline constexpr std::array<MapClass, 3> all_classes{MapClass::keep, MapClass::swap, MapClass::recompute};

struct ClassTotals {
  std::array<std::size_t, 3> maps{};     // by MapClass
  std::array<std::uint64_t, 3> bytes{};  // of those maps, whole
};
ClassTotals totals_of(const Plan& plan);

// Extra time over in-core: 0.12 is +12 %.
double overhead_of(double ms, double in_core_ms);
// Above the time that no plan can beat; empty where that was not computed.
std::optional<double> bound_gap(const Plan& plan);

// "+12.3 %"
std::string percent(double share);

// Error: invalid_argument, what is wrong with the file, without its name.
Result<Plan> read_plan(const std::string& path);

}  // namespace pooch::tools
