// The command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "context.h"
#include "networks.h"
#include "optimizer.h"

namespace train {

// A network, and how it is trained.
struct NetworkOptions {
  std::string name = "digits";
  std::string label;           // in logs: the name, or another one where two networks have the same
  int batch = 0;               // 0: the network's default
  Form form;                   // sizes of 0: the network's default
  OptimizerOptions optimizer;  // learning rate 0: the network's default
};

// What is done beyond one pass and one step in every iteration.
struct LoopOptions {
  int accumulate = 1;      // passes for one step
  int validate_every = 0;  // iterations; 0: never
  int validation_batches = 1;
  int validation_batch = 0;      // images; 0: as many as in training
  int epoch_length = 0;          // iterations; 0: endless
  int last_batch = 0;            // images of the last batch of an epoch; 0: as many as in the others
  std::vector<int> input_sizes;  // height and width, iteration by iteration; empty: always the network's
  bool static_input = false;
  int inspect = -1;       // iteration; -1: none
  int inspect_every = 0;  // and again after so many; 0: never
  std::string log;   // file for one line per pass; empty: none
};

struct Options {
  NetworkOptions network;
  std::optional<NetworkOptions> alternate;
  LoopOptions loop;
  int width = 32;
  int iterations = 0;  // 0: from epochs
  int epochs = 0;      // 0: the network's default
  std::uint64_t seed = 1;
  Algorithms algorithms;
  Memory::Kind allocation = Memory::Kind::stream_ordered;
  std::string loss_log;
  std::string weights_log;
  std::string host_log;
  std::string data;  // empty: looked for beside the executable
  bool json = false;
  bool describe = false;
};

// Prints help or the error itself; then the exit code is returned.
std::optional<int> parse_options(int argc, char** argv, Options& options);

}  // namespace train
