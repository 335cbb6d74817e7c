#include "runtime/planning/basis.h"

#include <algorithm>
#include <cmath>

namespace pooch::runtime {

std::vector<double> op_times(const PhaseProfile& phase) {
  std::vector<double> us;
  us.reserve(phase.ops.size());
  for (const ProfileOp& op : phase.ops) us.push_back(op.us + op.gap_us);
  return us;
}

bool differs(const Basis& basis, const KnownPhase& known) {
  constexpr double noticeable = 0.03, noticeable_in_all = 0.1;  // of an iteration
  if (basis.structure != structure_of(known.profile)) return true;
  const std::vector<double> us = op_times(known.profile);
  double whole = 0, other = 0, now = 0;
  for (std::size_t i = 0; i < us.size(); ++i) {
    now += us[i];
    if (basis.us.empty()) continue;
    whole += basis.us[i];
    other += std::abs(basis.us[i] - us[i]);
  }
  if (!basis.us.empty()) return other > noticeable * whole;
  // A plan that was made in another run, where everything may have taken another time.
  const double then = basis.in_core_ms * 1e3;
  return known.profile.measured > 0 && then > 0 && std::abs(now - then) > noticeable_in_all * then;
}

}  // namespace pooch::runtime
