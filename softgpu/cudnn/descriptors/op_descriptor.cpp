// Convolution, pooling, activation and OpTensor descriptors.
#include <algorithm>

#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {
namespace {

constexpr int max_spatial = max_rank - 2;

template <class T>
cudnnStatus_t destroy(T* descriptor) {
  delete descriptor;
  return CUDNN_STATUS_SUCCESS;
}

bool at_least(const int* values, int count, int least) {
  return std::all_of(values, values + count, [&](int v) { return v >= least; });
}

cudnnStatus_t set_convolution(const char* function, cudnnConvolutionDescriptor_t conv, int rank,
                              const int* padding, const int* stride, const int* dilation,
                              cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  if (any_null(conv, padding, stride, dilation)) return null_argument(function);
  if (rank < 1 || rank > max_spatial)
    return fail(function, CUDNN_STATUS_BAD_PARAM, "1 to 6 spatial dimensions");
  if (!at_least(padding, rank, 0) || !at_least(stride, rank, 1) || !at_least(dilation, rank, 1)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "negative padding, or stride or dilation below 1");
  }
  conv->rank = rank;
  std::copy(padding, padding + rank, conv->padding);
  std::copy(stride, stride + rank, conv->stride);
  std::copy(dilation, dilation + rank, conv->dilation);
  conv->mode = mode;
  conv->compute_type = compute_type;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t set_pooling(const char* function, cudnnPoolingDescriptor_t pooling, cudnnPoolingMode_t mode,
                          cudnnNanPropagation_t nan, int rank, const int* window, const int* padding,
                          const int* stride) {
  if (any_null(pooling, window, padding, stride)) return null_argument(function);
  if (rank < 1 || rank > max_spatial)
    return fail(function, CUDNN_STATUS_BAD_PARAM, "1 to 6 spatial dimensions");
  if (!at_least(window, rank, 1) || !at_least(padding, rank, 0) || !at_least(stride, rank, 1)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "negative padding, or window or stride below 1");
  }
  pooling->rank = rank;
  pooling->mode = mode;
  pooling->nan = nan;
  std::copy(window, window + rank, pooling->window);
  std::copy(padding, padding + rank, pooling->padding);
  std::copy(stride, stride + rank, pooling->stride);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

// --- convolution
// ---------------------------------------------------------------------------------------------

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* conv) {
  return create_descriptor(__func__, conv);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t conv) {
  return destroy(conv);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t conv, int pad_h,
                                                            int pad_w, int u, int v, int dilation_h,
                                                            int dilation_w, cudnnConvolutionMode_t mode,
                                                            cudnnDataType_t compute_type) {
  const int padding[] = {pad_h, pad_w};
  const int stride[] = {u, v};
  const int dilation[] = {dilation_h, dilation_w};
  return set_convolution(__func__, conv, 2, padding, stride, dilation, mode, compute_type);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t conv, int rank,
                                                            const int* padding, const int* stride,
                                                            const int* dilation, cudnnConvolutionMode_t mode,
                                                            cudnnDataType_t compute_type) {
  return set_convolution(__func__, conv, rank, padding, stride, dilation, mode, compute_type);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolution2dDescriptor(const cudnnConvolutionDescriptor_t conv,
                                                            int* pad_h, int* pad_w, int* u, int* v,
                                                            int* dilation_h, int* dilation_w,
                                                            cudnnConvolutionMode_t* mode,
                                                            cudnnDataType_t* compute_type) {
  if (any_null(conv, pad_h, pad_w, u, v, dilation_h, dilation_w, mode, compute_type)) {
    return null_argument(__func__);
  }
  if (conv->rank != 2) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the convolution is not 2-dimensional");
  *pad_h = conv->padding[0];
  *pad_w = conv->padding[1];
  *u = conv->stride[0];
  *v = conv->stride[1];
  *dilation_h = conv->dilation[0];
  *dilation_w = conv->dilation[1];
  *mode = conv->mode;
  *compute_type = conv->compute_type;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionNdDescriptor(const cudnnConvolutionDescriptor_t conv,
                                                            int requested, int* rank, int* padding,
                                                            int* stride, int* dilation,
                                                            cudnnConvolutionMode_t* mode,
                                                            cudnnDataType_t* compute_type) {
  if (any_null(conv, rank, mode, compute_type)) return null_argument(__func__);
  *rank = conv->rank;
  for (int d = 0; d < std::min(requested, conv->rank); ++d) {
    if (padding) padding[d] = conv->padding[d];
    if (stride) stride[d] = conv->stride[d];
    if (dilation) dilation[d] = conv->dilation[d];
  }
  *mode = conv->mode;
  *compute_type = conv->compute_type;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                                        cudnnMathType_t type) {
  if (!conv) return null_argument(__func__);
  conv->math_type = type;
  return CUDNN_STATUS_SUCCESS;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionMathType(cudnnConvolutionDescriptor_t conv,
                                                        cudnnMathType_t* type) {
  if (any_null(conv, type)) return null_argument(__func__);
  *type = conv->math_type;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int groups) {
  if (!conv) return null_argument(__func__);
  if (groups < 1) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the group count is below 1");
  conv->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionGroupCount(cudnnConvolutionDescriptor_t conv, int* groups) {
  if (any_null(conv, groups)) return null_argument(__func__);
  *groups = conv->groups;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetConvolutionReorderType(cudnnConvolutionDescriptor_t conv,
                                                           cudnnReorderType_t type) {
  if (!conv) return null_argument(__func__);
  conv->reorder = type;
  return CUDNN_STATUS_SUCCESS;
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionReorderType(cudnnConvolutionDescriptor_t conv,
                                                           cudnnReorderType_t* type) {
  if (any_null(conv, type)) return null_argument(__func__);
  *type = conv->reorder;
  return CUDNN_STATUS_SUCCESS;
}

// --- pooling
// -------------------------------------------------------------------------------------------------

SOFTGPU_CUDNN cudnnStatus_t cudnnCreatePoolingDescriptor(cudnnPoolingDescriptor_t* pooling) {
  return create_descriptor(__func__, pooling);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyPoolingDescriptor(cudnnPoolingDescriptor_t pooling) {
  return destroy(pooling);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetPooling2dDescriptor(cudnnPoolingDescriptor_t pooling,
                                                        cudnnPoolingMode_t mode, cudnnNanPropagation_t nan,
                                                        int window_h, int window_w, int pad_h, int pad_w,
                                                        int stride_h, int stride_w) {
  const int window[] = {window_h, window_w};
  const int padding[] = {pad_h, pad_w};
  const int stride[] = {stride_h, stride_w};
  return set_pooling(__func__, pooling, mode, nan, 2, window, padding, stride);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetPoolingNdDescriptor(cudnnPoolingDescriptor_t pooling,
                                                        const cudnnPoolingMode_t mode,
                                                        const cudnnNanPropagation_t nan, int rank,
                                                        const int* window, const int* padding,
                                                        const int* stride) {
  return set_pooling(__func__, pooling, mode, nan, rank, window, padding, stride);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetPooling2dDescriptor(const cudnnPoolingDescriptor_t pooling,
                                                        cudnnPoolingMode_t* mode, cudnnNanPropagation_t* nan,
                                                        int* window_h, int* window_w, int* pad_h, int* pad_w,
                                                        int* stride_h, int* stride_w) {
  if (any_null(pooling, mode, nan, window_h, window_w, pad_h, pad_w, stride_h, stride_w)) {
    return null_argument(__func__);
  }
  if (pooling->rank != 2) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the pooling is not 2-dimensional");
  *mode = pooling->mode;
  *nan = pooling->nan;
  *window_h = pooling->window[0];
  *window_w = pooling->window[1];
  *pad_h = pooling->padding[0];
  *pad_w = pooling->padding[1];
  *stride_h = pooling->stride[0];
  *stride_w = pooling->stride[1];
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetPoolingNdDescriptor(const cudnnPoolingDescriptor_t pooling, int requested,
                                                        cudnnPoolingMode_t* mode, cudnnNanPropagation_t* nan,
                                                        int* rank, int* window, int* padding, int* stride) {
  if (any_null(pooling, mode, nan, rank)) return null_argument(__func__);
  *mode = pooling->mode;
  *nan = pooling->nan;
  *rank = pooling->rank;
  for (int d = 0; d < std::min(requested, pooling->rank); ++d) {
    if (window) window[d] = pooling->window[d];
    if (padding) padding[d] = pooling->padding[d];
    if (stride) stride[d] = pooling->stride[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetPoolingNdForwardOutputDim(const cudnnPoolingDescriptor_t pooling,
                                                              const cudnnTensorDescriptor_t input, int rank,
                                                              int* dims) {
  if (any_null(pooling, input, dims)) return null_argument(__func__);
  if (rank != input->layout.rank || rank != pooling->rank + 2) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "input and pooling differ in their number of dimensions");
  }
  for (int d = 0; d < rank; ++d) {
    const int in = static_cast<int>(input->layout.dims[d]);
    const int s = d - 2;
    dims[d] = d < 2 ? in : 1 + (in + 2 * pooling->padding[s] - pooling->window[s]) / pooling->stride[s];
  }
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetPooling2dForwardOutputDim(const cudnnPoolingDescriptor_t pooling,
                                                              const cudnnTensorDescriptor_t input, int* n,
                                                              int* c, int* h, int* w) {
  if (any_null(n, c, h, w)) return null_argument(__func__);
  int dims[4] = {};
  cudnnStatus_t status = cudnnGetPoolingNdForwardOutputDim(pooling, input, 4, dims);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  *n = dims[0];
  *c = dims[1];
  *h = dims[2];
  *w = dims[3];
  return CUDNN_STATUS_SUCCESS;
}

// --- activation
// ----------------------------------------------------------------------------------------------

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateActivationDescriptor(cudnnActivationDescriptor_t* activation) {
  return create_descriptor(__func__, activation);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyActivationDescriptor(cudnnActivationDescriptor_t activation) {
  return destroy(activation);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetActivationDescriptor(cudnnActivationDescriptor_t activation,
                                                         cudnnActivationMode_t mode,
                                                         cudnnNanPropagation_t nan, double coefficient) {
  if (!activation) return null_argument(__func__);
  if (mode < CUDNN_ACTIVATION_SIGMOID || mode > CUDNN_ACTIVATION_SWISH) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "unknown activation mode");
  }
  *activation = {true, mode, nan, coefficient};
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetActivationDescriptor(const cudnnActivationDescriptor_t activation,
                                                         cudnnActivationMode_t* mode,
                                                         cudnnNanPropagation_t* nan, double* coefficient) {
  if (any_null(activation, mode, nan, coefficient)) return null_argument(__func__);
  *mode = activation->mode;
  *nan = activation->nan;
  *coefficient = activation->coefficient;
  return CUDNN_STATUS_SUCCESS;
}

// --- OpTensor
// ------------------------------------------------------------------------------------------------

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateOpTensorDescriptor(cudnnOpTensorDescriptor_t* op) {
  return create_descriptor(__func__, op);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyOpTensorDescriptor(cudnnOpTensorDescriptor_t op) {
  return destroy(op);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetOpTensorDescriptor(cudnnOpTensorDescriptor_t op, cudnnOpTensorOp_t kind,
                                                       cudnnDataType_t compute_type,
                                                       cudnnNanPropagation_t nan) {
  if (!op) return null_argument(__func__);
  if (kind < CUDNN_OP_TENSOR_ADD || kind > CUDNN_OP_TENSOR_NOT) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "unknown operation");
  }
  *op = {true, kind, compute_type, nan};
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetOpTensorDescriptor(const cudnnOpTensorDescriptor_t op,
                                                       cudnnOpTensorOp_t* kind, cudnnDataType_t* compute_type,
                                                       cudnnNanPropagation_t* nan) {
  if (any_null(op, kind, compute_type, nan)) return null_argument(__func__);
  *kind = op->op;
  *compute_type = op->compute_type;
  *nan = op->nan;
  return CUDNN_STATUS_SUCCESS;
}
