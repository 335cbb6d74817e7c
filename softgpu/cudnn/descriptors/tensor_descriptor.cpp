// Tensor and filter descriptors.
#include <algorithm>

#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {

std::size_t element_bytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
    case CUDNN_DATA_COMPLEX_FP32:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
    case CUDNN_DATA_UINT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
    case CUDNN_DATA_FP8_E4M3:
    case CUDNN_DATA_FP8_E5M2:
    case CUDNN_DATA_FP8_E8M0:
      return 1;
    case CUDNN_DATA_COMPLEX_FP64:
      return 16;
    default:
      return 0;
  }
}

Layout filter_layout(const cudnnFilterStruct& filter) {
  Layout l{};
  l.rank = filter.rank;
  std::int64_t stride = 1;
  for (int d = filter.rank - 1; d >= 0; --d) {
    l.dims[d] = filter.dims[d];
    l.strides[d] = stride;
    stride *= filter.dims[d];
  }
  return l;
}

cudnnStatus_t check_given(const char* function, std::initializer_list<const cudnnTensorStruct*> tensors) {
  constexpr std::int64_t most_runs = 1 << 16;
  for (const cudnnTensorStruct* tensor : tensors) {
    if (!tensor) return null_argument(function);
    if (tensor->layout.rank == 0)
      return fail(function, CUDNN_STATUS_BAD_PARAM, "a tensor descriptor is not set");
    if (run_count(tensor->layout) > most_runs) {
      return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "a tensor is scattered over too many pieces");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t check_tensors(const char* function, std::initializer_list<const cudnnTensorStruct*> tensors) {
  if (auto status = check_given(function, tensors); status != CUDNN_STATUS_SUCCESS) return status;
  for (const cudnnTensorStruct* tensor : tensors) {
    if (tensor->type != CUDNN_DATA_FLOAT) return not_float(function);
  }
  return CUDNN_STATUS_SUCCESS;
}

namespace {

bool all_positive(const int* values, int count) {
  return std::all_of(values, values + count, [](int v) { return v > 0; });
}

// Strides of a tensor without gaps in the given order.
void set_packed_strides(Layout& l, cudnnTensorFormat_t format) {
  std::int64_t stride = 1;
  if (format == CUDNN_TENSOR_NHWC) {
    l.strides[1] = 1;
    stride = l.dims[1];
    for (int d = l.rank - 1; d >= 2; --d) {
      l.strides[d] = stride;
      stride *= l.dims[d];
    }
    l.strides[0] = stride;
    return;
  }
  for (int d = l.rank - 1; d >= 0; --d) {
    l.strides[d] = stride;
    stride *= l.dims[d];
  }
}

cudnnStatus_t set_tensor(const char* function, cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank,
                         const int* dims, const int* strides, cudnnTensorFormat_t format) {
  if (any_null(tensor, dims)) return null_argument(function);
  if (rank < 1 || rank > CUDNN_DIM_MAX)
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "1 to 8 dimensions");
  if (!all_positive(dims, rank)) return fail(function, CUDNN_STATUS_BAD_PARAM, "a dimension is not positive");
  if (strides && !all_positive(strides, rank)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "a stride is not positive");
  }
  if (format == CUDNN_TENSOR_NCHW_VECT_C || element_bytes(type) == 0) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "vectorised channels and types below one byte");
  }
  Layout l{};
  l.rank = rank;
  std::copy(dims, dims + rank, l.dims);
  if (strides) {
    std::copy(strides, strides + rank, l.strides);
  } else {
    set_packed_strides(l, rank < 3 ? CUDNN_TENSOR_NCHW : format);
  }
  tensor->type = type;
  tensor->layout = l;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_filter(const char* function, cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                         cudnnTensorFormat_t format, int rank, const int* dims) {
  if (any_null(filter, dims)) return null_argument(function);
  if (rank < 3 || rank > CUDNN_DIM_MAX)
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "3 to 8 dimensions");
  if (!all_positive(dims, rank)) return fail(function, CUDNN_STATUS_BAD_PARAM, "a dimension is not positive");
  if (element_bytes(type) == 0) return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "types below one byte");
  filter->type = type;
  filter->format = format;
  filter->rank = rank;
  std::copy(dims, dims + rank, filter->dims);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create_descriptor(__func__, tensor);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  delete tensor;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor,
                                                       cudnnTensorFormat_t format, cudnnDataType_t type,
                                                       int n, int c, int h, int w) {
  const int dims[] = {n, c, h, w};
  return set_tensor(__func__, tensor, type, 4, dims, nullptr, format);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                                         int n, int c, int h, int w, int n_stride,
                                                         int c_stride, int h_stride, int w_stride) {
  const int dims[] = {n, c, h, w};
  const int strides[] = {n_stride, c_stride, h_stride, w_stride};
  return set_tensor(__func__, tensor, type, 4, dims, strides, CUDNN_TENSOR_NCHW);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                                                       int rank, const int* dims, const int* strides) {
  if (!strides) return null_argument(__func__);
  return set_tensor(__func__, tensor, type, rank, dims, strides, CUDNN_TENSOR_NCHW);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor,
                                                         cudnnTensorFormat_t format, cudnnDataType_t type,
                                                         int rank, const int* dims) {
  return set_tensor(__func__, tensor, type, rank, dims, nullptr, format);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetTensor4dDescriptor(const cudnnTensorDescriptor_t tensor,
                                                       cudnnDataType_t* type, int* n, int* c, int* h, int* w,
                                                       int* n_stride, int* c_stride, int* h_stride,
                                                       int* w_stride) {
  if (any_null(tensor, type, n, c, h, w, n_stride, c_stride, h_stride, w_stride))
    return null_argument(__func__);
  if (tensor->layout.rank != 4)
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the tensor has not 4 dimensions");
  int* const dims[] = {n, c, h, w};
  int* const strides[] = {n_stride, c_stride, h_stride, w_stride};
  for (int d = 0; d < 4; ++d) {
    *dims[d] = static_cast<int>(tensor->layout.dims[d]);
    *strides[d] = static_cast<int>(tensor->layout.strides[d]);
  }
  *type = tensor->type;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetTensorNdDescriptor(const cudnnTensorDescriptor_t tensor, int requested,
                                                       cudnnDataType_t* type, int* rank, int* dims,
                                                       int* strides) {
  if (any_null(tensor, type, rank)) return null_argument(__func__);
  *type = tensor->type;
  *rank = tensor->layout.rank;
  for (int d = 0; d < std::min(requested, tensor->layout.rank); ++d) {
    if (dims) dims[d] = static_cast<int>(tensor->layout.dims[d]);
    if (strides) strides[d] = static_cast<int>(tensor->layout.strides[d]);
  }
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetTensorSizeInBytes(const cudnnTensorDescriptor_t tensor,
                                                      std::size_t* bytes) {
  if (any_null(tensor, bytes)) return null_argument(__func__);
  *bytes = tensor->layout.rank == 0
               ? 0
               : static_cast<std::size_t>(element_span(tensor->layout)) * element_bytes(tensor->type);
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create_descriptor(__func__, filter);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  delete filter;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                                       cudnnTensorFormat_t format, int k, int c, int h,
                                                       int w) {
  const int dims[] = {k, c, h, w};
  return set_filter(__func__, filter, type, format, 4, dims);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type,
                                                       cudnnTensorFormat_t format, int rank,
                                                       const int* dims) {
  return set_filter(__func__, filter, type, format, rank, dims);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetFilter4dDescriptor(const cudnnFilterDescriptor_t filter,
                                                       cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                                       int* k, int* c, int* h, int* w) {
  if (any_null(filter, type, format, k, c, h, w)) return null_argument(__func__);
  if (filter->rank != 4) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the filter has not 4 dimensions");
  *type = filter->type;
  *format = filter->format;
  *k = filter->dims[0];
  *c = filter->dims[1];
  *h = filter->dims[2];
  *w = filter->dims[3];
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetFilterNdDescriptor(const cudnnFilterDescriptor_t filter, int requested,
                                                       cudnnDataType_t* type, cudnnTensorFormat_t* format,
                                                       int* rank, int* dims) {
  if (any_null(filter, type, format, rank, dims)) return null_argument(__func__);
  *type = filter->type;
  *format = filter->format;
  *rank = filter->rank;
  std::copy(filter->dims, filter->dims + std::min(requested, filter->rank), dims);
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetFilterSizeInBytes(const cudnnFilterDescriptor_t filter,
                                                      std::size_t* bytes) {
  if (any_null(filter, bytes)) return null_argument(__func__);
  *bytes = filter->rank == 0 ? 0
                             : static_cast<std::size_t>(element_count(filter_layout(*filter))) *
                                   element_bytes(filter->type);
  return CUDNN_STATUS_SUCCESS;
}
