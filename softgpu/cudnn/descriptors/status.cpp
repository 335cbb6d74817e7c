#include "softgpu/cudnn/descriptors/status.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "softgpu/cudart/driver.h"

namespace softgpu::cudnn {
namespace {

thread_local char last_message[256] = "";

}  // namespace

cudnnStatus_t fail(const char* function, cudnnStatus_t status, const char* reason) {
  std::snprintf(last_message, sizeof last_message, "%s: %s: %s", function, cudnnGetErrorString(status),
                reason);
  return status;
}

cudnnStatus_t launched(const char* function, CUresult result) {
  if (result == CUDA_SUCCESS) return CUDNN_STATUS_SUCCESS;
  const char* reason = cudaGetErrorName(cudart::to_error(result));
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    return fail(function, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, reason);
  }
  return fail(function, CUDNN_STATUS_EXECUTION_FAILED, reason);
}

}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define SOFTGPU_NAME(name) \
  case name:               \
    return #name;
    SOFTGPU_NAME(CUDNN_STATUS_SUCCESS)
    SOFTGPU_NAME(CUDNN_STATUS_NOT_INITIALIZED)
    SOFTGPU_NAME(CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH)
    SOFTGPU_NAME(CUDNN_STATUS_DEPRECATED)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_NULL_POINTER)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE)
    SOFTGPU_NAME(CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED)
    SOFTGPU_NAME(CUDNN_STATUS_NOT_SUPPORTED)
    SOFTGPU_NAME(CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
    SOFTGPU_NAME(CUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE)
    SOFTGPU_NAME(CUDNN_STATUS_NOT_SUPPORTED_LAYOUT)
    SOFTGPU_NAME(CUDNN_STATUS_INTERNAL_ERROR)
    SOFTGPU_NAME(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
    SOFTGPU_NAME(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    SOFTGPU_NAME(CUDNN_STATUS_EXECUTION_FAILED)
    SOFTGPU_NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER)
    SOFTGPU_NAME(CUDNN_STATUS_EXECUTION_FAILED_CUDART)
#undef SOFTGPU_NAME
    default:
      return "CUDNN_UNKNOWN_STATUS";
  }
}

SOFTGPU_CUDNN void cudnnGetLastErrorString(char* message, std::size_t max_size) {
  if (!message || max_size == 0) return;
  std::snprintf(message, max_size, "%s", last_message);
  last_message[0] = '\0';
}
