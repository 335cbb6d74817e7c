// `pooch fit`: does a command fit on this GPU, and what would it take with pooch?
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pooch::tools {

struct FitOptions {
  std::string device = "real";
  std::vector<std::string> memory;  // caps to show, as for `pooch run`
  std::optional<std::string> host_memory;
  std::string policy = "hybrid";
  std::string profile;     // of an earlier run; empty: the command is run
  unsigned seconds = 600;  // that the command may take
  bool json = false;
  std::vector<std::string> command;
};

// Runs the command for some iterations under its device's default cap, ends it, and plans for other caps.
// Returns an exit code: the command's own where it failed by itself.
int fit_command(const FitOptions& options);

}  // namespace pooch::tools
