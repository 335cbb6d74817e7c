// Launches that can be made again: a copy of every parameter, with addresses that move along with their
// operands.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "interpose/calls/replay_call.h"
#include "interpose/kernels/kernel_facts.h"

namespace pooch::interpose {

// The shape of a launch without attributes.
struct LaunchShape {
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
};

// Code that was unloaded cannot be launched again: a replay kept before this call fails instead.
void forget_kept_launches();

// `words`: all addresses in `params`. nullptr where a parameter is missing.
std::unique_ptr<Replay> keep_launch(const Keeping& keeping, decltype(&cuLaunchKernel) real,
                                    const LaunchShape& shape, const LaunchParams& params,
                                    std::span<const LaunchWord> words);

}  // namespace pooch::interpose
