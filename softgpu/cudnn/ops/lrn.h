// Local response normalisation across channels: y = x * s^-b with s = k + a / n * (sum of x^2 over a window
// of n channels), from c - (n - 1) / 2 on.
#pragma once

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

struct LrnWindow {
  std::int64_t n;
  double alpha, beta, k;
};

// Pointers: x, y.
struct LrnForward {
  static constexpr const char* name = "lrn_cross_channel_forward";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout x, y;
    LrnWindow window;
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// Pointers: y, dy, x, dx.
struct LrnBackward {
  static constexpr const char* name = "lrn_cross_channel_backward";
  static constexpr std::size_t pointers = 4;
  struct Args {
    Layout y, dy, x, dx;
    LrnWindow window;
    float alpha, beta;
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

}  // namespace softgpu::cudnn
