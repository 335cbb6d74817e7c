// All kernels of the library in one image.
#pragma once

#include "softgpu/cudart/kernel_library.h"

namespace softgpu::cudnn {

KernelLibrary& kernels();

}  // namespace softgpu::cudnn
