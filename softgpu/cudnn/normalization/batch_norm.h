// Batch normalisation. A tensor is seen as N x M x S: M statistics over N images of S values each; SPATIAL
// has M = C and S = H * W, PER_ACTIVATION has M = C * H * W and S = 1.
#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct BatchNormShape {
  std::int64_t n, m, s;
};

// Pointers: x, y, scale, bias, running mean, running variance, saved mean, saved inverse deviation; the last
// two pairs may be 0.
struct BatchNormForwardTraining {
  static constexpr const char* name = "batch_norm_forward_training";
  static constexpr std::size_t pointers = 8;
  struct Args {
    Layout x, y;
    cudnnDataType_t type;  // of x and y
    BatchNormShape shape;
    double factor, epsilon;
    float alpha, beta;
  };
  static void footprint(const Pointers<8>& p, const Args& a, Footprint& out);
  static void run(const Pointers<8>& p, const Args& a);
};

// Pointers: x, y, scale, bias, mean, variance.
struct BatchNormForwardInference {
  static constexpr const char* name = "batch_norm_forward_inference";
  static constexpr std::size_t pointers = 6;
  struct Args {
    Layout x, y;
    cudnnDataType_t type;  // of x and y
    BatchNormShape shape;
    double epsilon;
    float alpha, beta;
  };
  static void footprint(const Pointers<6>& p, const Args& a, Footprint& out);
  static void run(const Pointers<6>& p, const Args& a);
};

// Pointers: x, dy, dx, scale, dscale, dbias, saved mean, saved inverse deviation; the last two may both be 0.
struct BatchNormBackward {
  static constexpr const char* name = "batch_norm_backward";
  static constexpr std::size_t pointers = 8;
  struct Args {
    Layout x, dy, dx;
    cudnnDataType_t type;  // of all three
    BatchNormShape shape;
    double epsilon;
    float alpha_data, beta_data, alpha_param, beta_param;
  };
  static void footprint(const Pointers<8>& p, const Args& a, Footprint& out);
  static void run(const Pointers<8>& p, const Args& a);
};

}  // namespace softgpu::cudnn
