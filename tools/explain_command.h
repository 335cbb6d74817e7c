// `pooch explain`: what a plan does with every map, why, and what it costs.
#pragma once

#include <string>

namespace pooch::tools {

// 0, or 2 after one line on stderr; then nothing was printed.
int explain_command(const std::string& plan);

}  // namespace pooch::tools
