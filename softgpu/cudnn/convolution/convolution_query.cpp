// Convolutions before they run: checks, output sizes, and the choice of an algorithm.
#include <algorithm>
#include <array>
#include <vector>

#include "softgpu/cudnn/convolution/convolution_check.h"

namespace softgpu::cudnn {
namespace {

std::int64_t output_size(const cudnnConvolutionStruct& conv, std::int64_t in, std::int64_t kernel, int d) {
  const std::int64_t reach = (kernel - 1) * conv.dilation[d] + 1;
  const std::int64_t room = in + 2 * std::int64_t{conv.padding[d]} - reach;
  return room < 0 ? 0 : 1 + room / conv.stride[d];
}

cudnnStatus_t output_dims(const char* function, const cudnnConvolutionStruct* conv,
                          const cudnnTensorStruct* x, const cudnnFilterStruct* w, int rank, int* dims) {
  if (any_null(conv, x, w, dims)) return null_argument(function);
  if (conv->rank == 0 || w->rank == 0 || x->layout.rank != rank || w->rank != rank ||
      conv->rank != rank - 2) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the descriptors differ in their number of dimensions");
  }
  if (x->layout.dims[1] != std::int64_t{w->dims[1]} * conv->groups) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the filter has not the input's channels");
  }
  dims[0] = static_cast<int>(x->layout.dims[0]);
  dims[1] = w->dims[0];
  for (int d = 0; d < conv->rank; ++d) {
    dims[d + 2] = static_cast<int>(output_size(*conv, x->layout.dims[d + 2], w->dims[d + 2], d));
    if (dims[d + 2] < 1) return fail(function, CUDNN_STATUS_BAD_PARAM, "the filter is larger than the input");
  }
  return CUDNN_STATUS_SUCCESS;
}

// A common heuristic of the three directions; what is not supported comes last, with its status. `time` is
// -1, as in cuDNN's own heuristic, which does not measure.
template <class Performance>
cudnnStatus_t rank_algorithms(const char* function, ConvDirection direction, const cudnnTensorStruct* x,
                              const cudnnFilterStruct* w, const cudnnConvolutionStruct* conv,
                              const cudnnTensorStruct* y, int requested, int* returned,
                              Performance* results) {
  if (any_null(returned, results)) return null_argument(function);
  if (requested < 1) return fail(function, CUDNN_STATUS_BAD_PARAM, "fewer than one result is requested");
  ConvShape shape{};
  if (auto status = check_convolution(function, x, w, conv, y, shape); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const std::vector<int> candidates = ranked_algorithms(direction, shape);
  *returned = std::min(requested, static_cast<int>(candidates.size()));
  for (int i = 0; i < *returned; ++i) {
    const int algorithm = candidates[static_cast<std::size_t>(i)];
    const ConvAlgorithm from = describe_algorithm(direction, algorithm, shape);
    Performance& to = results[i];
    to = {};
    to.algo = static_cast<decltype(to.algo)>(algorithm);
    to.status = from.supported ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
    to.time = -1.0F;
    to.memory = from.workspace;
    to.determinism = from.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    to.mathType = CUDNN_DEFAULT_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t max_count(const char* function, ConvDirection direction, cudnnHandle_t handle, int* count) {
  if (any_null(handle, count)) return null_argument(function);
  *count = algorithm_count(direction);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

cudnnStatus_t check_convolution(const char* function, const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                                const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y,
                                ConvShape& shape) {
  if (any_null(w, conv)) return null_argument(function);
  if (auto status = check_tensors(function, {x, y}); status != CUDNN_STATUS_SUCCESS) return status;
  std::array<int, max_rank> dims{};
  if (auto status = output_dims(function, conv, x, w, x->layout.rank, dims.data());
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  if (w->type != CUDNN_DATA_FLOAT || conv->compute_type != CUDNN_DATA_FLOAT) return not_float(function);
  if (w->format != CUDNN_TENSOR_NCHW) return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only NCHW filters");
  if (conv->rank < 2 || conv->rank > max_conv_spatial) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only 2 and 3 spatial dimensions");
  }
  if (w->dims[0] % conv->groups != 0) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the groups do not divide the output channels");
  }
  if (y->layout.rank != x->layout.rank ||
      !std::equal(dims.begin(), dims.begin() + y->layout.rank, y->layout.dims)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the output has not the convolution's output size");
  }
  shape = {};
  shape.spatial = conv->rank;
  shape.flipped = conv->mode == CUDNN_CONVOLUTION ? 1 : 0;
  shape.n = x->layout.dims[0];
  shape.c = x->layout.dims[1];
  shape.k = w->dims[0];
  shape.groups = conv->groups;
  for (int d = 0; d < conv->rank; ++d) {
    shape.in[d] = x->layout.dims[d + 2];
    shape.out[d] = y->layout.dims[d + 2];
    shape.kernel[d] = w->dims[d + 2];
    shape.stride[d] = conv->stride[d];
    shape.padding[d] = conv->padding[d];
    shape.dilation[d] = conv->dilation[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionNdForwardOutputDim(const cudnnConvolutionDescriptor_t conv,
                                                                  const cudnnTensorDescriptor_t x,
                                                                  const cudnnFilterDescriptor_t w, int rank,
                                                                  int* dims) {
  return output_dims(__func__, conv, x, w, rank, dims);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolution2dForwardOutputDim(const cudnnConvolutionDescriptor_t conv,
                                                                  const cudnnTensorDescriptor_t x,
                                                                  const cudnnFilterDescriptor_t filter,
                                                                  int* n, int* c, int* h, int* w) {
  if (any_null(n, c, h, w)) return null_argument(__func__);
  int dims[4] = {};
  if (auto status = output_dims(__func__, conv, x, filter, 4, dims); status != CUDNN_STATUS_SUCCESS)
    return status;
  *n = dims[0];
  *c = dims[1];
  *h = dims[2];
  *w = dims[3];
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionForwardAlgorithmMaxCount(cudnnHandle_t handle, int* count) {
  return max_count(__func__, ConvDirection::forward, handle, count);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithmMaxCount(cudnnHandle_t handle,
                                                                             int* count) {
  return max_count(__func__, ConvDirection::backward_data, handle, count);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithmMaxCount(cudnnHandle_t handle,
                                                                               int* count) {
  return max_count(__func__, ConvDirection::backward_filter, handle, count);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y, const int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  if (!handle) return null_argument(__func__);
  return rank_algorithms(__func__, ConvDirection::forward, x, w, conv, y, requested, returned, results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  if (!handle) return null_argument(__func__);
  return rank_algorithms(__func__, ConvDirection::backward_data, dx, w, conv, dy, requested, returned,
                         results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw, const int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  if (!handle) return null_argument(__func__);
  return rank_algorithms(__func__, ConvDirection::backward_filter, x, dw, conv, dy, requested, returned,
                         results);
}
