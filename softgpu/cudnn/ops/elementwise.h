// cudnnAddTensor, cudnnOpTensor, cudnnScaleTensor, cudnnSetTensor, cudnnTransformTensor.
#pragma once

#include <cudnn.h>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// c = alpha * a + beta * c, `a` stretched. Pointers: a, c.
struct AddTensor {
  static constexpr const char* name = "add_tensor";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout a, c;  // a as it is in memory
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// c = op(alpha1 * a, alpha2 * b) + beta * c, `b` stretched. Pointers: a, b (0 for one operand), c.
struct OpTensor {
  static constexpr const char* name = "op_tensor";
  static constexpr std::size_t pointers = 3;
  struct Args {
    Layout a, b, c;
    cudnnOpTensorOp_t op;
    float alpha1, alpha2, beta;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

// y = alpha * y. Pointers: y.
struct ScaleTensor {
  static constexpr const char* name = "scale_tensor";
  static constexpr std::size_t pointers = 1;
  struct Args {
    Layout y;
    float alpha;
  };
  static void footprint(const Pointers<1>& p, const Args& a, Footprint& out);
  static void run(const Pointers<1>& p, const Args& a);
};

// y = value. Pointers: y.
struct SetTensor {
  static constexpr const char* name = "set_tensor";
  static constexpr std::size_t pointers = 1;
  struct Args {
    Layout y;
    float value;
  };
  static void footprint(const Pointers<1>& p, const Args& a, Footprint& out);
  static void run(const Pointers<1>& p, const Args& a);
};

}  // namespace softgpu::cudnn
