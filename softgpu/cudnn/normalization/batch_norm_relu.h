// The ReLU that the Ex forms of batch normalisation put behind it, with a bit per element for the way back.
#pragma once

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// y = max(y + z, 0). Pointers: y, z (0: none), mask (0: none).
struct NormReluForward {
  static constexpr const char* name = "batch_norm_relu_forward";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout y, z;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

// dx = dy where the mask is set, else 0. Pointers: dy, dx, mask.
struct NormReluBackward {
  static constexpr const char* name = "batch_norm_relu_backward";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout dy, dx;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cudnn
