// What cuDNN's operation descriptors say of a call beside its operands.
#include <algorithm>
#include <cstring>

#include "interpose/cudnn/facts.h"
#include "interpose/cudnn/text.h"
#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnGetPoolingNdDescriptor);
POOCH_REAL(cudnn, cudnnGetActivationDescriptor);
POOCH_REAL(cudnn, cudnnGetOpTensorDescriptor);
POOCH_REAL(cudnn, cudnnGetReduceTensorDescriptor);
POOCH_REAL(cudnn, cudnnGetLRNDescriptor);

constexpr int most_dimensions = ConvolutionText::most_dimensions;

template <class Real>
Scalar judge(const void* scalar) {
  Real value;
  std::memcpy(&value, scalar, sizeof value);
  return value == 0 ? Scalar::zero : value == 1 ? Scalar::one : Scalar::other;
}

Scalar judge(const void* scalar, bool type_known, cudnnDataType_t type) {
  if (scalar == nullptr || !type_known) return Scalar::unknown;
  return type == CUDNN_DATA_DOUBLE ? judge<double>(scalar) : judge<float>(scalar);
}

void add_all(CallBuilder& call, const std::array<std::int32_t, most_dimensions>& values, int rank) {
  for (int i = 0; i < rank; ++i) call.trait(values[i]);
}

std::string_view name_of(cudnnActivationMode_t mode) {
  switch (mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return "sigmoid";
    case CUDNN_ACTIVATION_RELU:
      return "relu";
    case CUDNN_ACTIVATION_TANH:
      return "tanh";
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return "clipped_relu";
    case CUDNN_ACTIVATION_ELU:
      return "elu";
    case CUDNN_ACTIVATION_SWISH:
      return "swish";
    default:
      return "activation";
  }
}

std::string_view name_of(cudnnOpTensorOp_t operation) {
  switch (operation) {
    case CUDNN_OP_TENSOR_ADD:
      return "add";
    case CUDNN_OP_TENSOR_MUL:
      return "multiply";
    case CUDNN_OP_TENSOR_MIN:
      return "min";
    case CUDNN_OP_TENSOR_MAX:
      return "max";
    case CUDNN_OP_TENSOR_SQRT:
      return "square_root";
    default:
      return "not";
  }
}

}  // namespace

Scalar scalar_of(const Scope& scope, const void* scalar, cudnnTensorDescriptor_t tensor) {
  const auto type = tensor_type(scope, tensor);
  return judge(scalar, type.has_value(), type.value_or(CUDNN_DATA_FLOAT));
}

Scalar scalar_of(const Scope& scope, const void* scalar, cudnnFilterDescriptor_t filter) {
  FilterText text;
  const bool known = filter != nullptr && text.read(scope, filter);
  return judge(scalar, known, text.type);
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnConvolutionDescriptor_t convolution) {
  ConvolutionText text;
  if (!text.read(scope, convolution)) return;
  Window& window = call.window();
  window.rank = static_cast<std::uint8_t>(text.rank);
  window.padding = text.padding, window.stride = text.stride, window.dilation = text.dilation;
  window.groups = text.groups;
  for (const auto* values : {&text.padding, &text.stride, &text.dilation}) add_all(call, *values, text.rank);
  call.trait(text.groups);
  call.trait(text.mode);
  call.trait(text.type);
  call.trait(text.math);
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnPoolingDescriptor_t pooling) {
  Window& window = call.window();
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  int rank = 0;
  auto* const get = real_cudnnGetPoolingNdDescriptor.get_if_present(scope);
  if (get == nullptr || get(pooling, most_dimensions, &mode, &nan, &rank, window.size.data(),
                            window.padding.data(), window.stride.data()) != CUDNN_STATUS_SUCCESS)
    return;
  window.rank = static_cast<std::uint8_t>(std::min(rank, most_dimensions));
  for (int i = 0; i < window.rank; ++i) window.dilation[i] = 1;
  for (const auto* values : {&window.size, &window.padding, &window.stride})
    add_all(call, *values, window.rank);
  call.trait(mode);
  const bool average = mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ||
                       mode == CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
  call.mode(average ? "average" : "max");
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnActivationDescriptor_t activation) {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double limit = 0;
  auto* const get = real_cudnnGetActivationDescriptor.get_if_present(scope);
  if (get == nullptr || get(activation, &mode, &nan, &limit) != CUDNN_STATUS_SUCCESS) return;
  call.trait(mode);
  call.mode(name_of(mode));
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnOpTensorDescriptor_t operation) {
  cudnnOpTensorOp_t op;
  cudnnDataType_t type;
  cudnnNanPropagation_t nan;
  auto* const get = real_cudnnGetOpTensorDescriptor.get_if_present(scope);
  if (get == nullptr || get(operation, &op, &type, &nan) != CUDNN_STATUS_SUCCESS) return;
  call.trait(op);
  call.mode(name_of(op));
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnReduceTensorDescriptor_t reduction) {
  cudnnReduceTensorOp_t op;
  cudnnDataType_t type;
  cudnnNanPropagation_t nan;
  cudnnReduceTensorIndices_t indices;
  cudnnIndicesType_t index_type;
  auto* const get = real_cudnnGetReduceTensorDescriptor.get_if_present(scope);
  if (get == nullptr || get(reduction, &op, &type, &nan, &indices, &index_type) != CUDNN_STATUS_SUCCESS)
    return;
  call.trait(op);
  call.mode("reduce");
}

void add_traits(const Scope& scope, CallBuilder& call, cudnnLRNDescriptor_t norm) {
  unsigned channels = 0;
  double alpha = 0, beta = 0, k = 0;
  auto* const get = real_cudnnGetLRNDescriptor.get_if_present(scope);
  if (get == nullptr || get(norm, &channels, &alpha, &beta, &k) != CUDNN_STATUS_SUCCESS) return;
  call.trait(channels);
}

}  // namespace pooch::interpose
