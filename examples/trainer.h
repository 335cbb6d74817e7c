// The training loop.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "context.h"
#include "data.h"
#include "network.h"
#include "optimizer.h"
#include "options.h"

namespace train {

struct Report {
  int layers = 0;
  int iterations = 0;
  double last_loss = 0;                 // not a number where the device computes nothing
  std::optional<double> test_accuracy;  // digits only, and only where the device computes
  std::size_t need_bytes = 0;
  double milliseconds = 0;  // of an iteration: the median, the first left out
};

// The network that the options name. Throws Failure.
Network make_network(const Options& options);
// Runs what the options say. Throws Failure.
Report run_training(const Options& options);

}  // namespace train
