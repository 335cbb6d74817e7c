// What nvcc's host code calls. A software GPU cannot run device code, so images are accepted and ignored, and
// a launch of a function from one is told that the function does not exist.
#include <vector_types.h>

#include <vector>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

thread_local std::vector<LaunchConfiguration> pushed;

}  // namespace

SOFTGPU_CUDART cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaLaunchKernel_ptsz(const void*, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaLaunchCooperativeKernel(const void*, dim3, dim3, void**, std::size_t,
                                                       cudaStream_t) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t*, const void*, void**) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int*, const void*, int,
                                                                         std::size_t) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int*, const void*, int,
                                                                                  std::size_t, unsigned) {
  return record(cudaErrorInvalidDeviceFunction);
}

SOFTGPU_CUDART unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared_bytes,
                                                    cudaStream_t stream) {
  pushed.push_back({grid, block, shared_bytes, stream});
  return 0;
}

SOFTGPU_CUDART cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared_bytes,
                                                      void* stream) {
  if (pushed.empty()) return record(cudaErrorMissingConfiguration);
  const LaunchConfiguration top = pushed.back();
  pushed.pop_back();
  *grid = top.grid;
  *block = top.block;
  *shared_bytes = top.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = top.stream;
  return cudaSuccess;
}

SOFTGPU_CUDART cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t) {
  return record(cudaErrorInvalidDeviceFunction);
}
SOFTGPU_CUDART cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t, dim3, dim3, void**, std::size_t,
                                                   cudaStream_t) {
  return record(cudaErrorInvalidDeviceFunction);
}

SOFTGPU_CUDART void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
SOFTGPU_CUDART void __cudaRegisterFatBinaryEnd(void**) {}
SOFTGPU_CUDART void __cudaUnregisterFatBinary(void**) {}
SOFTGPU_CUDART char __cudaInitModule(void**) {
  return 1;
}
SOFTGPU_CUDART void __cudaRegisterFunction(void**, const char*, char*, const char*, int, uint3*, uint3*,
                                           dim3*, dim3*, int*) {}
SOFTGPU_CUDART void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
SOFTGPU_CUDART void __cudaRegisterManagedVar(void**, void**, char*, const char*, int, std::size_t, int, int) {
}
SOFTGPU_CUDART void __cudaRegisterHostVar(void**, const char*, char*, std::size_t) {}
