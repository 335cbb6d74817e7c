// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "context.h"
#include "networks.h"
#include "optimizer.h"

namespace train {

struct Options {
  std::string network = "digits";
  int batch = 0;    // 0: the network's default
  InputSize input;  // sizes of 0: the network's default
  int width = 32;
  int iterations = 0;  // 0: from epochs
  int epochs = 0;      // 0: the network's default
  std::uint64_t seed = 1;
  Algorithms algorithms;
  Memory::Kind allocation = Memory::Kind::stream_ordered;
  SgdOptions sgd;  // learning rate 0: the network's default
  std::string loss_log;
  std::string data;  // empty: looked for beside the executable
  bool json = false;
  bool describe = false;
};

// Prints help or the error itself; then the exit code is returned.
std::optional<int> parse_options(int argc, char** argv, Options& options);

}  // namespace train
