// `pooch run`: a command with libpooch.so preloaded, on the real GPU or a software one.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pooch::tools {

enum ExitCode : int { exit_bad_usage = 2, exit_failed = 3, exit_not_executable = 126, exit_not_found = 127 };

// Why a command ends, and with which exit code.
struct Refusal {
  int code;
  std::string message;  // empty: said already
};
// Says it in one line and returns the code. `command`: "plan"; empty where it is the user's program that
// runs.
int complain(std::string_view command, const Refusal& refusal);

// As written on the command line; nothing where the option was not given.
struct RunOptions {
  std::optional<std::string> memory, host_memory, policy, log;
  std::string device = "real";
  std::optional<std::string> summary;
  std::optional<std::uint64_t> seed;
  bool without_pooch = false;
  std::vector<std::string> command;
  // Asked ten times a second. Once it says so the command is ended, and its code is 0. Nothing is reported.
  std::function<bool()> enough = {};
};

// Returns the program's exit code: the child's own, or an ExitCode after one line on stderr.
int run_command(const RunOptions& options);

}  // namespace pooch::tools
