// `pooch record`: runs a command with pooch and keeps its call stream in a file.
#pragma once

#include <string>

#include "run_command.h"

namespace pooch::tools {

struct RecordOptions {
  RunOptions run;
  std::string output;
};

// Returns what run_command returns; exit_failed where that is 0 and there is no recording of the program.
int record_command(const RecordOptions& options);

}  // namespace pooch::tools
