// The iterations that a timeline of POOCH_TRACE shows.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace pooch::tools {

struct TracedIteration {
  double ms = 0;         // from its begin to that of the next, of any phase
  bool planned = false;  // it followed a plan from its first op to its last
};

// The iterations of one phase, in order, without the run's last: when that was over the file does not tell.
// Error: invalid_argument, what is wrong with the file, without its name.
Result<std::vector<TracedIteration>> traced_iterations(const std::string& path, const std::string& phase);

// Of iterations that follow no plan. The first ones are left out, in which the network is found and its ops
// are timed: `usual_lead`, or half of them where there are fewer. Nothing where there are none.
inline constexpr std::size_t usual_lead = 8;
std::vector<double> settled_ms(const std::vector<TracedIteration>& iterations);
std::optional<double> median(std::vector<double> values);

}  // namespace pooch::tools
