#include "interpose/cudnn/text.h"

#include <algorithm>

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnGetTensorNdDescriptor);
POOCH_REAL(cudnn, cudnnGetFilterNdDescriptor);
POOCH_REAL(cudnn, cudnnGetConvolutionNdDescriptor);
POOCH_REAL(cudnn, cudnnGetConvolutionGroupCount);
POOCH_REAL(cudnn, cudnnGetConvolutionMathType);

}  // namespace

std::uint64_t element_bytes(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_DOUBLE:
    case CUDNN_DATA_INT64:
      return 8;
    case CUDNN_DATA_FLOAT:
    case CUDNN_DATA_INT32:
      return 4;
    case CUDNN_DATA_HALF:
    case CUDNN_DATA_BFLOAT16:
      return 2;
    case CUDNN_DATA_INT8:
    case CUDNN_DATA_UINT8:
    case CUDNN_DATA_BOOLEAN:
      return 1;
    default:
      return 0;
  }
}

bool TensorText::read(const Scope& scope, cudnnTensorDescriptor_t from) {
  auto* const get = real_cudnnGetTensorNdDescriptor.get_if_present(scope);
  return get != nullptr &&
         get(from, CUDNN_DIM_MAX, &type, &rank, dimensions.data(), strides.data()) == CUDNN_STATUS_SUCCESS &&
         rank <= CUDNN_DIM_MAX;
}

bool FilterText::read(const Scope& scope, cudnnFilterDescriptor_t from) {
  auto* const get = real_cudnnGetFilterNdDescriptor.get_if_present(scope);
  return get != nullptr &&
         get(from, CUDNN_DIM_MAX, &type, &format, &rank, dimensions.data()) == CUDNN_STATUS_SUCCESS &&
         rank <= CUDNN_DIM_MAX;
}

bool ConvolutionText::read(const Scope& scope, cudnnConvolutionDescriptor_t from) {
  auto* const get = real_cudnnGetConvolutionNdDescriptor.get_if_present(scope);
  if (get == nullptr || get(from, most_dimensions, &rank, padding.data(), stride.data(), dilation.data(),
                            &mode, &type) != CUDNN_STATUS_SUCCESS)
    return false;
  rank = std::min(rank, most_dimensions);
  if (auto* const get_groups = real_cudnnGetConvolutionGroupCount.get_if_present(scope))
    (void)get_groups(from, &groups);
  if (auto* const get_math = real_cudnnGetConvolutionMathType.get_if_present(scope))
    (void)get_math(from, &math);
  return true;
}

}  // namespace pooch::interpose
