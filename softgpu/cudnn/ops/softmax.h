#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// Where the values of one softmax lie: `length` of them along an axis, for each of `inner` positions per
// image.
struct SoftmaxShape {
  std::int64_t images, length, inner;
};
struct SoftmaxStrides {
  std::int64_t image, axis, inner;
};

// Pointers: x, y.
struct SoftmaxForward {
  static constexpr const char* name = "softmax_forward";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout x, y;
    SoftmaxShape shape;
    SoftmaxStrides x_strides, y_strides;
    cudnnSoftmaxAlgorithm_t algorithm;
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// Pointers: y, dy, dx.
struct SoftmaxBackward {
  static constexpr const char* name = "softmax_backward";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout y, dy, dx;
    SoftmaxShape shape;
    SoftmaxStrides y_strides, dy_strides, dx_strides;
    cudnnSoftmaxAlgorithm_t algorithm;
    float alpha, beta;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cudnn
