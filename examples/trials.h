// Which algorithm a convolution takes: the one named for all, or the fastest in trials.
#pragma once

#include <cudnn.h>

#include <vector>

#include "context.h"

namespace train {

// One convolution of some shape, in any direction.
struct Convolved {
  const Tensor& x;  // or a tensor of its shape
  const Tensor& y;  // or its gradient
  cudnnFilterDescriptor_t filter;
  cudnnConvolutionDescriptor_t convolution;
  std::vector<int> form;  // what the two descriptors say

  // Equal keys may share an algorithm.
  std::vector<int> key(int direction) const;
};

// A gradient that trials may write anything into, unless it is accumulated into.
struct Gradient {
  const Tensor& tensor;
  bool accumulates;
};

// With Algorithms::trials, the first call for a shape executes every algorithm on the operands given; later
// ones take what was found then.
cudnnConvolutionFwdAlgo_t forward_algorithm(Context& context, const Convolved& shape, const float* x,
                                            const float* w, float* y);
cudnnConvolutionBwdDataAlgo_t backward_data_algorithm(Context& context, const Convolved& shape,
                                                      const float* w, const float* dy, Gradient dx);
cudnnConvolutionBwdFilterAlgo_t backward_filter_algorithm(Context& context, const Convolved& shape,
                                                          const float* x, const float* dy, Gradient dw);

}  // namespace train
