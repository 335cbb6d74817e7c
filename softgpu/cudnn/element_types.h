// Tensors of types narrower than float, brought to the kernels as floats.
#pragma once

#include <cudnn.h>

#include <vector>

#include "softgpu/cudnn/layout.h"

namespace softgpu::cudnn {

// In the order of the dimensions, without gaps. Types: float, half, bfloat16.
std::vector<float> load_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout);
// Rounds to nearest, ties to even.
void store_elements(std::uint64_t address, cudnnDataType_t type, const Layout& layout,
                    const std::vector<float>& from);

}  // namespace softgpu::cudnn
