#include "plan_facts.h"

#include <fmt/core.h>

#include <cmath>

#include "text_file.h"

namespace pooch::tools {

ClassTotals totals_of(const Plan& plan) {
  ClassTotals totals;
  for (const PlanMap& map : plan.maps) {
    const auto of = static_cast<std::size_t>(map.of);
    ++totals.maps[of];
    totals.bytes[of] += map.bytes;
  }
  return totals;
}

double overhead_of(double ms, double in_core_ms) {
  return in_core_ms > 0 ? ms / in_core_ms - 1 : 0;
}

std::optional<double> bound_gap(const Plan& plan) {
  if (!plan.bound_ms || !(*plan.bound_ms > 0)) return std::nullopt;
  return plan.predicted_ms / *plan.bound_ms - 1;
}

std::string percent(double share) {
  const double shown = std::round(1000 * share) / 10;
  return fmt::format("{:+.1f} %", shown == 0 ? 0.0 : shown);  // no "-0.0"
}

Result<Plan> read_plan(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return text.error();
  return plan_from_json(*text);
}

}  // namespace pooch::tools
