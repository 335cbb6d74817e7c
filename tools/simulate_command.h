// `pooch simulate`: what each policy would make of a command, on a software GPU that only keeps time.
#pragma once

#include <string>
#include <vector>

namespace pooch::tools {

// As written on the command line.
struct SimulateOptions {
  std::string device;          // soft:MODEL[:timing][:memory=SIZE], or MODEL alone
  std::string memory;          // what the command may use
  std::string policy = "all";  // or a policy's name
  bool execute = false;        // carry the plans out as well
  bool json = false;
  bool allow_numerics = false;  // the policies that change results too
  std::vector<std::string> command;
};

// Runs the command twice: under demand mode within `memory`, for the profile that is planned from, and with
// memory enough, for the time in-core. Where demand mode finds no way, the second run serves for both. With
// `execute` it runs once more for each policy. What the command writes on stdout is not shown.
// Returns 0; an ExitCode, or the command's own code where it failed with memory enough, after a line on
// stderr.
int simulate_command(const SimulateOptions& options);

}  // namespace pooch::tools
