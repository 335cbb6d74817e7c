// `pooch path`: where the library is, for those who set LD_PRELOAD themselves.
#pragma once

namespace pooch::tools {

// The path goes to stdout. Returns the program's exit code: 0, or exit_failed after one line on stderr.
int path_command();

}  // namespace pooch::tools
