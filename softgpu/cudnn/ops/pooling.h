#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// Three spatial dimensions; those that the tensors lack have size 1.
struct PoolingWindow {
  cudnnPoolingMode_t mode;
  bool propagate_nan;
  std::int64_t in[3], out[3];
  std::int64_t window[3], padding[3], stride[3];
};

// Pointers: x, y.
struct PoolingForward {
  static constexpr const char* name = "pooling_forward";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout x, y;
    PoolingWindow window;
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// Pointers: y, dy, x, dx. The average modes read neither x nor y.
struct PoolingBackward {
  static constexpr const char* name = "pooling_backward";
  static constexpr std::size_t pointers = 4;
  struct Args {
    Layout y, dy, x, dx;
    PoolingWindow window;
    float alpha, beta;
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

}  // namespace softgpu::cudnn
