// The training loop: one network, or two in turn.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "options.h"

namespace train {

struct NetworkReport {
  int layers = 0;
  double last_loss = 0;                   // not a number where the device computes nothing
  std::optional<double> validation_loss;  // the last one
  std::optional<double> test_accuracy;    // digits only, and only where the device computes
};

struct Report {
  std::vector<NetworkReport> networks;
  int iterations = 0;  // of all networks
  double images_per_iteration = 0;
  std::size_t need_bytes = 0;
  double milliseconds = 0;  // of an iteration: the median, the first left out
};

// Runs what the options say. Throws Failure.
Report run_training(const Options& options);

}  // namespace train
