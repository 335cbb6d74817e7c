// Host functions for kernels that come as PTX text, by the kernel's name, and families of kernels of device
// code. They come from shared objects in a folder, SOFTGPU_KERNELS or `kernels/` beside this library, each of
// which exports an Image (softgpu/image.h) named `softgpu_image`.
#pragma once

#include <string>
#include <string_view>

#include "softgpu/driver/code/ptx.h"
#include "softgpu/image.h"

namespace softgpu {

// nullptr: there is none of this name with these parameters. The folder is read at the first call.
const KernelEntry* host_kernel(const PtxEntry& entry);

// Whose rule tells what such a launch touches; nullptr: nobody's. `name` as in KernelLaunch.
const KernelFamily* kernel_family(std::string_view name);
// "void f<int>(int)" of a mangled name; a name that is none stays.
std::string demangled(const char* name);

}  // namespace softgpu
