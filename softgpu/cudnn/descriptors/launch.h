// How calls launch kernels.
#pragma once

#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {

// Launches in the handle's stream; `work_items` as in KernelLibrary::launch.
template <class Kernel>
cudnnStatus_t launch(const char* function, cudnnHandle_t handle, std::int64_t work_items,
                     Pointers<Kernel::pointers> pointers, const typename Kernel::Args& args) {
  return launched(function, handle->kernels->launch<Kernel>(handle->stream, work_items, pointers, args));
}

inline std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

}  // namespace softgpu::cudnn
