// What nvcc's host code calls to launch, and what a program asks about its kernels.
#include <vector_types.h>

#include <vector>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"
#include "softgpu/cudart/fat_binary.h"

using namespace softgpu::cudart;

namespace {

struct LaunchConfiguration {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes;
  cudaStream_t stream;
};

thread_local std::vector<LaunchConfiguration> pushed;

// The driver takes a kernel where it takes a function.
CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

cudaError_t launch(CUkernel kernel, const LaunchConfiguration& with, void** params, Streams streams) {
  return in_context(&DriverTable::LaunchKernel, streams, as_function(kernel), with.grid.x, with.grid.y,
                    with.grid.z, with.block.x, with.block.y, with.block.z,
                    static_cast<unsigned>(with.shared_bytes), with.stream, params,
                    static_cast<void**>(nullptr));
}

cudaError_t launch(const void* function, const LaunchConfiguration& with, void** params, Streams streams) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  return launch(kernel, with, params, streams);
}

cudaError_t launch_cooperative(const void* function, const LaunchConfiguration& with, void** params,
                               Streams streams) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  return in_context(&DriverTable::LaunchCooperativeKernel, streams, as_function(kernel), with.grid.x,
                    with.grid.y, with.grid.z, with.block.x, with.block.y, with.block.z,
                    static_cast<unsigned>(with.shared_bytes), with.stream, params);
}

cudaError_t launch_ex(const cudaLaunchConfig_t* config, const void* function, void** params,
                      Streams streams) {
  static_assert(sizeof(cudaLaunchAttribute) == sizeof(CUlaunchAttribute));
  CUkernel kernel = nullptr;
  if (!config) return record(cudaErrorInvalidValue);
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  const CUlaunchConfig with{config->gridDim.x,
                            config->gridDim.y,
                            config->gridDim.z,
                            config->blockDim.x,
                            config->blockDim.y,
                            config->blockDim.z,
                            static_cast<unsigned>(config->dynamicSmemBytes),
                            config->stream,
                            reinterpret_cast<CUlaunchAttribute*>(config->attrs),
                            config->numAttrs};
  return in_context(&DriverTable::LaunchKernelEx, streams, &with, as_function(kernel), params,
                    static_cast<void**>(nullptr));
}

struct IntAttribute {
  int cudaFuncAttributes::*field;
  CUfunction_attribute attribute;
};

constexpr IntAttribute int_attributes[] = {
    {&cudaFuncAttributes::maxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaFuncAttributes::numRegs, CU_FUNC_ATTRIBUTE_NUM_REGS},
    {&cudaFuncAttributes::ptxVersion, CU_FUNC_ATTRIBUTE_PTX_VERSION},
    {&cudaFuncAttributes::binaryVersion, CU_FUNC_ATTRIBUTE_BINARY_VERSION},
    {&cudaFuncAttributes::maxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES},
    {&cudaFuncAttributes::preferredShmemCarveout, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT},
};

cudaError_t occupancy(int* blocks, const void* function, int block_threads, std::size_t shared_bytes,
                      unsigned flags) {
  CUkernel kernel = nullptr;
  if (!blocks) return record(cudaErrorInvalidValue);
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  return record(call(driver().OccupancyMaxActiveBlocksPerMultiprocessorWithFlags, blocks, as_function(kernel),
                     block_threads, shared_bytes, flags));
}

}  // namespace

// Exported names and their variants for the per-thread default stream.
#define SOFTGPU_LAUNCHES(suffix, streams)                                                           \
  SOFTGPU_CUDART cudaError_t cudaLaunchKernel##suffix(const void* function, dim3 grid, dim3 block,  \
                                                      void** params, std::size_t shared_bytes,      \
                                                      cudaStream_t stream) {                        \
    return launch(function, {grid, block, shared_bytes, stream}, params, streams);                  \
  }                                                                                                 \
  SOFTGPU_CUDART cudaError_t cudaLaunchCooperativeKernel##suffix(                                   \
      const void* function, dim3 grid, dim3 block, void** params, std::size_t shared_bytes,         \
      cudaStream_t stream) {                                                                        \
    return launch_cooperative(function, {grid, block, shared_bytes, stream}, params, streams);      \
  }                                                                                                 \
  SOFTGPU_CUDART cudaError_t cudaLaunchKernelExC##suffix(const cudaLaunchConfig_t* config,          \
                                                         const void* function, void** params) {     \
    return launch_ex(config, function, params, streams);                                            \
  }                                                                                                 \
  SOFTGPU_CUDART cudaError_t __cudaLaunchKernel##suffix(cudaKernel_t kernel, dim3 grid, dim3 block, \
                                                        void** params, std::size_t shared_bytes,    \
                                                        cudaStream_t stream) {                      \
    return launch(kernel, {grid, block, shared_bytes, stream}, params, streams);                    \
  }
SOFTGPU_LAUNCHES(, Streams::legacy)
SOFTGPU_LAUNCHES(_ptsz, Streams::per_thread)

SOFTGPU_CUDART cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return kernel ? record(kernel_of(function, *kernel)) : record(cudaErrorInvalidValue);
}

SOFTGPU_CUDART cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  CUkernel kernel = nullptr;
  if (!attributes) return record(cudaErrorInvalidValue);
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  *attributes = {};
  for (const IntAttribute& each : int_attributes) {
    const cudaError_t error =
        call(driver().FuncGetAttribute, &(attributes->*each.field), each.attribute, as_function(kernel));
    if (error != cudaSuccess) return record(error);
  }
  return cudaSuccess;
}

SOFTGPU_CUDART cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute,
                                                int value) {
  CUkernel kernel = nullptr;
  if (cudaError_t error = kernel_of(function, kernel); error != cudaSuccess) return record(error);
  return record(call(driver().FuncSetAttribute, as_function(kernel),
                     static_cast<CUfunction_attribute>(attribute), value));
}

SOFTGPU_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                                         int block_threads,
                                                                         std::size_t shared_bytes) {
  return occupancy(blocks, function, block_threads, shared_bytes, cudaOccupancyDefault);
}
SOFTGPU_CUDART cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* function, int block_threads, std::size_t shared_bytes, unsigned flags) {
  return occupancy(blocks, function, block_threads, shared_bytes, flags);
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
