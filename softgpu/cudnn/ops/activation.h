#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct Activation {
  cudnnActivationMode_t mode;
  bool propagate_nan;
  float coefficient;  // ceiling of the clipped ReLU, alpha of ELU
};

// In place on a block of `count` values; every mode but SWISH.
void activate(const Activation& a, float* values, std::int64_t count);

// Pointers: x, y.
struct ActivationForward {
  static constexpr const char* name = "activation_forward";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout x, y;
    Activation activation;
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// Pointers: y, dy, dx. All modes but SWISH know their derivative from y, so x is not read.
struct ActivationBackward {
  static constexpr const char* name = "activation_backward";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout y, dy, dx;
    Activation activation;
    float alpha, beta;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cudnn
