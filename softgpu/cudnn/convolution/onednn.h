// Convolutions by oneDNN. Always two OpenMP threads, whatever the calling thread is set to: weight gradients
// depend on their number, and results must not.
#pragma once

#include "softgpu/cudnn/convolution/convolution.h"

namespace softgpu::cudnn {

// result = convolution of `a` and `b`, every element written:
//   forward: x, w -> y    backward_data: w, dy -> dx    backward_filter: x, dy -> dw
// `x` and `y` give the strides of input and output or of their gradients. Safe to call from several threads.
void convolve(ConvDirection direction, const ConvShape& shape, const Layout& x, const Layout& y,
              const float* a, const float* b, float* result);

}  // namespace softgpu::cudnn
