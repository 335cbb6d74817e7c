// Handles, modes, versions, statuses.
#include "softgpu/cublas/handle.h"

#include <new>

#include "softgpu/cudart/driver.h"

using namespace softgpu;
using namespace softgpu::cublas;

SOFTGPU_CUBLAS cublasStatus_t cublasCreate_v2(cublasHandle_t* handle) {
  constexpr std::size_t own_workspace_bytes = std::size_t{4} << 20;
  if (!handle) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = nullptr;
  if (cudart::enter_context() != cudaSuccess || kernels().load() != CUDA_SUCCESS) {
    return CUBLAS_STATUS_NOT_INITIALIZED;
  }
  auto* context = new (std::nothrow) cublasContext;
  if (!context) return CUBLAS_STATUS_ALLOC_FAILED;
  if (cudaMalloc(&context->own_workspace, own_workspace_bytes) != cudaSuccess) {
    delete context;
    return CUBLAS_STATUS_ALLOC_FAILED;
  }
  *handle = context;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasDestroy_v2(cublasHandle_t handle) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  cudaFree(handle->own_workspace);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int* version) {
  if (!version) return CUBLAS_STATUS_INVALID_VALUE;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (!value) return CUBLAS_STATUS_INVALID_VALUE;
  switch (type) {
    case MAJOR_VERSION:
      *value = CUBLAS_VER_MAJOR;
      return CUBLAS_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUBLAS_VER_MINOR;
      return CUBLAS_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUBLAS_VER_PATCH;
      return CUBLAS_STATUS_SUCCESS;
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

SOFTGPU_CUBLAS std::size_t cublasGetCudartVersion() {
  return CUDART_VERSION;
}

SOFTGPU_CUBLAS cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  handle->workspace = nullptr;  // a change of stream takes the program's workspace away
  handle->workspace_bytes = 0;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t* stream) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!stream) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace,
                                                    std::size_t bytes) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (address(workspace) % 256 != 0) return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = workspace;
  handle->workspace_bytes = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t* mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = handle->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = handle->math_mode;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->atomics_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

SOFTGPU_CUBLAS cublasStatus_t cublasGetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t* mode) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!mode) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = handle->atomics_mode;
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

struct StatusText {
  cublasStatus_t status;
  const char* name;
  const char* text;
};

constexpr StatusText texts[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the function requires an architectural feature absent from the device"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
};

const StatusText* find(cublasStatus_t status) {
  for (const StatusText& entry : texts) {
    if (entry.status == status) return &entry;
  }
  return nullptr;
}

}  // namespace

SOFTGPU_CUBLAS const char* cublasGetStatusName(cublasStatus_t status) {
  const StatusText* entry = find(status);
  return entry ? entry->name : "CUBLAS_STATUS_UNKNOWN";
}

SOFTGPU_CUBLAS const char* cublasGetStatusString(cublasStatus_t status) {
  const StatusText* entry = find(status);
  return entry ? entry->text : "unknown status";
}

// Settings that are only kept.
#define SOFTGPU_KEPT(name, type, field)                                               \
  SOFTGPU_CUBLAS cublasStatus_t cublasSet##name(cublasHandle_t handle, type value) {  \
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;                                \
    handle->field = value;                                                            \
    return CUBLAS_STATUS_SUCCESS;                                                     \
  }                                                                                   \
  SOFTGPU_CUBLAS cublasStatus_t cublasGet##name(cublasHandle_t handle, type* value) { \
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;                                \
    if (!value) return CUBLAS_STATUS_INVALID_VALUE;                                   \
    *value = handle->field;                                                           \
    return CUBLAS_STATUS_SUCCESS;                                                     \
  }
SOFTGPU_KEPT(SmCountTarget, int, multiprocessors)
SOFTGPU_KEPT(EmulationStrategy, cublasEmulationStrategy_t, emulation)
SOFTGPU_KEPT(EmulationSpecialValuesSupport, cudaEmulationSpecialValuesSupport, special_values)
SOFTGPU_KEPT(FixedPointEmulationMantissaControl, cudaEmulationMantissaControl, mantissa_control)
SOFTGPU_KEPT(FixedPointEmulationMaxMantissaBitCount, int, mantissa_bits)
SOFTGPU_KEPT(FixedPointEmulationMantissaBitOffset, int, mantissa_offset)
