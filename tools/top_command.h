// `pooch top`: what the sessions of this user's programs are doing.
#pragma once

#include <cstdint>
#include <vector>

namespace pooch::tools {

struct TopOptions {
  std::vector<std::int32_t> processes;  // empty: all
  double interval_s = 1;
  bool once = false, json = false;
};

// Shows them until they have ended, or until it is interrupted; with `once` or `json` one time. Returns the
// program's exit code: 0, or exit_failed after a line on stderr where there is none.
int top_command(const TopOptions& options);

}  // namespace pooch::tools
