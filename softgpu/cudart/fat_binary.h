// What nvcc's host code registers before main: fat binaries, and by the addresses of their host functions the
// kernels in them. A fat binary becomes a library of the driver's when something of it is used.
#pragma once

#include "softgpu/cudart/driver.h"

namespace softgpu::cudart {

// The kernel behind a host function. Errors: invalid_device_function where none is registered, the driver's.
cudaError_t kernel_of(const void* host_function, CUkernel& kernel);

}  // namespace softgpu::cudart
