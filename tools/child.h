// Runs one command and waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"

namespace pooch::tools {

struct ChildEnd {
  int status = 0;  // the exit code where signal is 0
  int signal = 0;
  bool enough = false;  // it was ended since it had done enough

  // As a shell reports it: 128 + signal.
  int exit_code() const { return signal != 0 ? 128 + signal : status; }
};

// `enough` is asked ten times a second; once it says so the command and what it started are terminated, and
// killed if that takes more than 20 s.
//
// Interrupts and terminations that reach this process are handed on; those that a terminal sends, the command
// has had. If this process is killed, so is the command. Errors: invalid_argument, the command cannot be
// executed (the message names it, vendor_status is the errno); internal, the process could not be made.
Result<ChildEnd> run_child(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment,
                           const std::function<bool()>& enough = {});

// What the command prints on stdout, or nothing where it cannot be run, fails, or takes longer than `limit`
// or more of a processor than `processor`. Looked for in $PATH.
std::optional<std::string> output_of(const std::vector<std::string>& command,
                                     std::chrono::seconds limit = std::chrono::hours(24),
                                     std::optional<std::chrono::seconds> processor = std::nullopt);

}  // namespace pooch::tools
