// Host functions for kernels that come as PTX text, by the kernel's name. They come from shared objects in a
// folder, SOFTGPU_KERNELS or `kernels/` beside this library, each of which exports an Image (softgpu/image.h)
// named `softgpu_image`.
#pragma once

#include "softgpu/driver/ptx.h"
#include "softgpu/image.h"

namespace softgpu {

// nullptr: there is none of this name with these parameters. The folder is read at the first call.
const KernelEntry* host_kernel(const PtxEntry& entry);

}  // namespace softgpu
