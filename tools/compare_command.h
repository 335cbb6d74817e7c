// `pooch compare`: where two plans differ.
#pragma once

#include <string>

namespace pooch::tools {

// 0, or 2 after one line on stderr; then nothing was printed.
int compare_command(const std::string& first, const std::string& second);

}  // namespace pooch::tools
