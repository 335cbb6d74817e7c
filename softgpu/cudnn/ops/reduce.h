// c = alpha * reduction(a) + beta * c over the dimensions in which c has 1 and a has not.
#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// Pointers: a, c, indices (0 where none are asked for), workspace.
struct ReduceTensor {
  static constexpr const char* name = "reduce_tensor";
  static constexpr std::size_t pointers = 4;
  struct Args {
    Layout a, c;
    cudnnReduceTensorOp_t op;
    std::int32_t propagate_nan;
    std::uint64_t workspace_bytes;
    float alpha, beta;
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

}  // namespace softgpu::cudnn
