// A cuDNN that does nothing but keep descriptors, so that what is left of a call is what pooch adds to it.
#include <cudnn.h>

#include <algorithm>
#include <array>

#define FAKE extern "C" __attribute__((visibility("default")))

struct cudnnTensorStruct {
  cudnnDataType_t type;
  int rank;
  std::array<int, CUDNN_DIM_MAX> dimensions, strides;
};
struct cudnnContext {
  cudaStream_t stream;
};

FAKE cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return *handle = new cudnnContext{}, CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t* stream) {
  return *stream = handle->stream, CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return *tensor = new cudnnTensorStruct{}, CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t,
                                              cudnnDataType_t type, int n, int c, int h, int w) {
  tensor->type = type;
  tensor->rank = 4;
  tensor->dimensions = {n, c, h, w};
  tensor->strides = {c * h * w, h * w, w, 1};
  return CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int wanted,
                                              cudnnDataType_t* type, int* rank, int dimensions[],
                                              int strides[]) {
  *type = tensor->type;
  *rank = tensor->rank;
  std::copy_n(tensor->dimensions.data(), std::min(wanted, tensor->rank), dimensions);
  std::copy_n(tensor->strides.data(), std::min(wanted, tensor->rank), strides);
  return CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensor, size_t* bytes) {
  size_t last = 0;
  for (int i = 0; i < tensor->rank; ++i)
    last += static_cast<size_t>(tensor->dimensions[i] - 1) * static_cast<size_t>(tensor->strides[i]);
  return *bytes = (last + 1) * sizeof(float), CUDNN_STATUS_SUCCESS;
}
FAKE cudnnStatus_t cudnnBatchNormalizationBackward(cudnnHandle_t, cudnnBatchNormMode_t, const void*,
                                                   const void*, const void*, const void*,
                                                   const cudnnTensorDescriptor_t, const void*,
                                                   const cudnnTensorDescriptor_t, const void*,
                                                   const cudnnTensorDescriptor_t, void*,
                                                   const cudnnTensorDescriptor_t, const void*, void*, void*,
                                                   double, const void*, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
