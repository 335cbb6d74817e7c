#include "interpose/cudnn_text.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnGetTensorNdDescriptor);
POOCH_REAL(cudnn, cudnnGetFilterNdDescriptor);

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

}  // namespace pooch::interpose
