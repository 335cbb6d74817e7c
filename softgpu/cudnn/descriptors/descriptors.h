// What stands behind cuDNN's opaque handles.
#pragma once

#include <cudnn.h>

#include <initializer_list>
#include <new>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/descriptors/status.h"
#include "softgpu/cudnn/elements/layout.h"

struct cudnnContext {
  softgpu::KernelLibrary* kernels;
  cudaStream_t stream = nullptr;
};

struct cudnnTensorStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  softgpu::cudnn::Layout layout{};  // rank 0: not set yet
};

struct cudnnFilterStruct {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int rank = 0;                             // 0: not set yet
  int dims[softgpu::cudnn::max_rank] = {};  // K, C / groups, spatial
};

struct cudnnConvolutionStruct {
  int rank = 0;  // spatial dimensions; 0: not set yet
  int padding[softgpu::cudnn::max_rank - 2] = {};
  int stride[softgpu::cudnn::max_rank - 2] = {};
  int dilation[softgpu::cudnn::max_rank - 2] = {};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnMathType_t math_type = CUDNN_DEFAULT_MATH;
  cudnnReorderType_t reorder = CUDNN_DEFAULT_REORDER;
  int groups = 1;
};

struct cudnnPoolingStruct {
  int rank = 0;  // spatial dimensions; 0: not set yet
  cudnnPoolingMode_t mode = CUDNN_POOLING_MAX;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  int window[softgpu::cudnn::max_rank - 2] = {};
  int padding[softgpu::cudnn::max_rank - 2] = {};
  int stride[softgpu::cudnn::max_rank - 2] = {};
};

struct cudnnActivationStruct {
  bool set = false;
  cudnnActivationMode_t mode = CUDNN_ACTIVATION_IDENTITY;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  double coefficient = 0;
};

struct cudnnOpTensorStruct {
  bool set = false;
  cudnnOpTensorOp_t op = CUDNN_OP_TENSOR_ADD;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
};

struct cudnnLRNStruct {  // AlexNet's values to begin with
  int n = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 2.0;
};

struct cudnnDropoutStruct {
  bool set = false;
  float probability = 0;   // of an element's being dropped
  void* states = nullptr;  // in device memory
  std::int64_t state_count = 0;
  unsigned long long seed = 0;
};

struct cudnnReduceTensorStruct {
  bool set = false;
  cudnnReduceTensorOp_t op = CUDNN_REDUCE_TENSOR_ADD;
  cudnnDataType_t compute_type = CUDNN_DATA_FLOAT;
  cudnnNanPropagation_t nan = CUDNN_NOT_PROPAGATE_NAN;
  cudnnReduceTensorIndices_t indices = CUDNN_REDUCE_TENSOR_NO_INDICES;
  cudnnIndicesType_t indices_type = CUDNN_32BIT_INDICES;
};

namespace softgpu::cudnn {

// Bytes of one element; 0 for types that are no whole number of bytes.
std::size_t element_bytes(cudnnDataType_t type);
// A filter as a packed tensor K, C / groups, spatial.
Layout filter_layout(const cudnnFilterStruct& filter);

// The usual conditions of tensors that a kernel works on: given, set, and of a layout with a bearable number
// of contiguous runs.
cudnnStatus_t check_given(const char* function, std::initializer_list<const cudnnTensorStruct*> tensors);
// And float.
cudnnStatus_t check_tensors(const char* function, std::initializer_list<const cudnnTensorStruct*> tensors);

template <class T>
cudnnStatus_t create_descriptor(const char* function, T** descriptor) {
  if (!descriptor) return null_argument(function);
  *descriptor = new (std::nothrow) T;
  if (!*descriptor)
    return fail(function, CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "no host memory");
  return CUDNN_STATUS_SUCCESS;
}

// A host scalar given as `const void*`; float for float tensors.
inline float scalar(const void* value) {
  return *static_cast<const float*>(value);
}

template <class... Pointer>
bool any_null(const Pointer*... pointers) {
  return ((pointers == nullptr) || ...);
}

}  // namespace softgpu::cudnn
