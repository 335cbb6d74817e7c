// Handles, versions.
#include <new>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudnn/descriptors/descriptors.h"
#include "softgpu/cudnn/descriptors/status.h"
#include "softgpu/cudnn/library/kernels.h"

using namespace softgpu;
using namespace softgpu::cudnn;

SOFTGPU_CUDNN std::size_t cudnnGetVersion() {
  return CUDNN_VERSION;
}
SOFTGPU_CUDNN std::size_t cudnnGetMaxDeviceVersion() {
  return 1210;
}
SOFTGPU_CUDNN std::size_t cudnnGetCudartVersion() {
  return CUDART_VERSION;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGraphVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnOpsVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnCnnVersionCheck() {
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetProperty(libraryPropertyType type, int* value) {
  if (!value) return null_argument(__func__);
  switch (type) {
    case MAJOR_VERSION:
      *value = CUDNN_MAJOR;
      return CUDNN_STATUS_SUCCESS;
    case MINOR_VERSION:
      *value = CUDNN_MINOR;
      return CUDNN_STATUS_SUCCESS;
    case PATCH_LEVEL:
      *value = CUDNN_PATCHLEVEL;
      return CUDNN_STATUS_SUCCESS;
  }
  return fail(__func__, CUDNN_STATUS_BAD_PARAM, "unknown property");
}

SOFTGPU_CUDNN cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  if (!handle) return null_argument(__func__);
  *handle = nullptr;
  if (cudaError_t error = cudart::enter_context(); error != cudaSuccess) {
    return fail(__func__, CUDNN_STATUS_NOT_INITIALIZED, cudaGetErrorString(error));
  }
  if (CUresult result = kernels().load(); result != CUDA_SUCCESS) return launched(__func__, result);
  *handle = new (std::nothrow) cudnnContext{&kernels()};
  if (!*handle) return fail(__func__, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no host memory");
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  if (!handle) return null_argument(__func__);
  delete handle;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  if (!handle) return null_argument(__func__);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  if (any_null(handle, stream)) return null_argument(__func__);
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}
