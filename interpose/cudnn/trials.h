// What the program's own trials of convolution algorithms found (cudnnFindConvolution*Algorithm), and which
// of those algorithms a convolution runs with: so that a profile can say what else there was to choose from.
#pragma once

#include <cudnn.h>

#include "core/call.h"
#include "core/profile.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// A convolution in any direction, by its operands or their gradients.
struct Convolution {
  cudnnTensorDescriptor_t x;
  cudnnFilterDescriptor_t w;
  cudnnConvolutionDescriptor_t by;
  cudnnTensorDescriptor_t y;
};

// Notes those of the `count` results that worked and were timed, for convolutions of the same form:
// direction, and contents of the descriptors but for the math type. Nothing where cuDNN does not say what
// these are.
template <class Performance>  // cudnnConvolution…AlgoPerf_t of any direction
void note_trials(const Scope& scope, const Convolution& of, int count, const Performance* results);

template <class Algo>  // cudnnConvolution…Algo_t of any direction
TriedAlgorithm tried(const Scope& scope, const Convolution& of, Algo algorithm);

// Fills the profile's trials, where its ops name any.
void describe_trials(Profile& profile);

}  // namespace pooch::interpose
