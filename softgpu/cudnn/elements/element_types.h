// Tensors of types narrower than float, brought to the kernels as floats.
#pragma once

#include <cudnn.h>

#include <vector>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// In the order of the dimensions, without gaps. Types: float, half, bfloat16.
std::vector<float> load_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout);
// Rounds to nearest, ties to even.
void store_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout,
                    const std::vector<float>& from);

// Whether arithmetic in float makes sense of it.
inline bool is_floating(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16;
}

// A kernel's operand of type Args::type.
template <class Kernel>
struct TypedOperand {
  std::size_t pointer;
  Layout Kernel::Args::*layout;
  bool is_result;
};

// Runs a kernel for packed floats on copies of its operands.
template <class Kernel, std::size_t Count>
void run_as_floats(Pointers<Kernel::pointers> p, typename Kernel::Args a,
                   const TypedOperand<Kernel> (&operands)[Count]) {
  const Pointers<Kernel::pointers> given = p;
  const typename Kernel::Args asked = a;
  std::vector<float> copies[Count];
  for (std::size_t i = 0; i < Count; ++i) {
    const TypedOperand<Kernel>& o = operands[i];
    copies[i] = load_elements(p[o.pointer], a.type, a.*o.layout);
    p[o.pointer] = reinterpret_cast<std::uint64_t>(copies[i].data());
    a.*o.layout = packed_like(a.*o.layout);
  }
  a.type = CUDNN_DATA_FLOAT;
  Kernel::run(p, a);
  for (std::size_t i = 0; i < Count; ++i) {
    const TypedOperand<Kernel>& o = operands[i];
    if (o.is_result) store_elements(given[o.pointer], asked.type, asked.*o.layout, copies[i]);
  }
}

}  // namespace softgpu::cudnn
