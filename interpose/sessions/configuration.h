// What this process was configured with, and whether pooch has stood down.
#pragma once

#include <string>

#include "core/config.h"

namespace pooch::interpose {

// Once; `config` is never destroyed, like all that hooks use.
void configure(const Config* config);
// nullptr before cuInit or where pooch has stood down.
const Config* configuration();

// Calls pass through from now on: in a forked child, or where nothing can be served.
void stand_down();
bool stood_down();

// For a value that cannot be understood: one line, exit code 2.
[[noreturn]] void end_with_usage_error(const std::string& message);

}  // namespace pooch::interpose
