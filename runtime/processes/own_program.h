// The `pooch` that came with the library, for what must not happen in the user's process.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"

namespace pooch::runtime {

// `chosen`, or else what lies beside the library: in `beside`, or where this code was loaded from. Error:
// invalid_argument, there is none, and where it was looked for.
Result<std::string> find_own_program(const std::string& chosen, const std::string& beside = {});

// This process's environment, for pooch's own program, which pooch does not serve.
std::vector<std::string> own_environment();

// Changes whenever the file is replaced. Empty: there is none.
std::string file_version(const std::string& path);

}  // namespace pooch::runtime
