#include "interpose/cudnn/replay.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/log.h"
#include "interpose/cudnn/text.h"
#include "interpose/hooks/libraries.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnCreate);
POOCH_REAL(cudnn, cudnnSetStream);
POOCH_REAL(cudnn, cudnnGetTensorSizeInBytes);
POOCH_REAL(cudnn, cudnnGetConvolutionGroupCount);
POOCH_REAL(cudnn, cudnnSetConvolutionGroupCount);
POOCH_REAL(cudnn, cudnnGetConvolutionMathType);
POOCH_REAL(cudnn, cudnnSetConvolutionMathType);
POOCH_REAL(cudnn, cudnnGetConvolutionReorderType);
POOCH_REAL(cudnn, cudnnSetConvolutionReorderType);
POOCH_REAL(cudnn, cudnnGetActivationDescriptorSwishBeta);
POOCH_REAL(cudnn, cudnnSetActivationDescriptorSwishBeta);

#define POOCH_MADE(name, set)            \
  POOCH_REAL(cudnn, cudnnCreate##name);  \
  POOCH_REAL(cudnn, cudnnDestroy##name); \
  POOCH_REAL(cudnn, set);
#define POOCH_DESCRIPTOR(name, get, set) \
  POOCH_MADE(name, set)                  \
  POOCH_REAL(cudnn, get);

POOCH_MADE(TensorDescriptor, cudnnSetTensorNdDescriptor)
POOCH_MADE(FilterDescriptor, cudnnSetFilterNdDescriptor)
POOCH_DESCRIPTOR(ConvolutionDescriptor, cudnnGetConvolutionNdDescriptor, cudnnSetConvolutionNdDescriptor)
POOCH_DESCRIPTOR(PoolingDescriptor, cudnnGetPoolingNdDescriptor, cudnnSetPoolingNdDescriptor)
POOCH_DESCRIPTOR(ActivationDescriptor, cudnnGetActivationDescriptor, cudnnSetActivationDescriptor)
POOCH_DESCRIPTOR(OpTensorDescriptor, cudnnGetOpTensorDescriptor, cudnnSetOpTensorDescriptor)
POOCH_DESCRIPTOR(ReduceTensorDescriptor, cudnnGetReduceTensorDescriptor, cudnnSetReduceTensorDescriptor)
POOCH_DESCRIPTOR(LRNDescriptor, cudnnGetLRNDescriptor, cudnnSetLRNDescriptor)
POOCH_DESCRIPTOR(TensorTransformDescriptor, cudnnGetTensorTransformDescriptor,
                 cudnnSetTensorTransformDescriptor)

#undef POOCH_DESCRIPTOR
#undef POOCH_MADE

// One call of cuDNN went well; a function that this version does not have did not.
template <class Function, class... Arguments>
bool done(const Scope& scope, Real<Function>& real, Arguments... arguments) {
  auto* const function = real.get_if_present(scope);
  return function != nullptr && function(arguments...) == CUDNN_STATUS_SUCCESS;
}

template <class Function, class Descriptor>
void destroy(Real<Function>& real, Descriptor descriptor) {
  const Scope scope;
  (void)done(scope, real, descriptor);
}

// Their dimensions count elements and their strides vectors: what the query says is not what the setter
// takes.
bool is_vector_type(cudnnDataType_t type) {
  return type == CUDNN_DATA_INT8x4 || type == CUDNN_DATA_UINT8x4 || type == CUDNN_DATA_INT8x32;
}

std::size_t factor_bytes(cudnnDataType_t type) {
  return type == CUDNN_DATA_DOUBLE ? sizeof(double) : sizeof(float);
}

KeptDescriptor<cudnnTensorTransformDescriptor_t> keep_transform(const Keeping& keeping,
                                                                cudnnTensorTransformDescriptor_t from,
                                                                bool source_known, int rank) {
  cudnnTensorTransformDescriptor_t clone = nullptr;
  const bool kept = from == nullptr || (source_known && clone_descriptor(keeping.scope, from, rank, clone));
  return {clone, destroy_descriptor, kept};
}

}  // namespace

bool clone_descriptor(const Scope& scope, cudnnTensorDescriptor_t from, cudnnTensorDescriptor_t& to) {
  TensorText text;
  std::size_t bytes = 0, cloned_bytes = 0;
  return text.read(scope, from) && !is_vector_type(text.type) &&
         done(scope, real_cudnnCreateTensorDescriptor, &to) &&
         done(scope, real_cudnnSetTensorNdDescriptor, to, text.type, text.rank, text.dimensions.data(),
              text.strides.data()) &&
         done(scope, real_cudnnGetTensorSizeInBytes, from, &bytes) &&
         done(scope, real_cudnnGetTensorSizeInBytes, to, &cloned_bytes) && bytes == cloned_bytes;
}

bool clone_descriptor(const Scope& scope, cudnnFilterDescriptor_t from, cudnnFilterDescriptor_t& to) {
  FilterText text;
  return text.read(scope, from) && !is_vector_type(text.type) &&
         done(scope, real_cudnnCreateFilterDescriptor, &to) &&
         done(scope, real_cudnnSetFilterNdDescriptor, to, text.type, text.format, text.rank,
              text.dimensions.data());
}

bool clone_descriptor(const Scope& scope, cudnnConvolutionDescriptor_t from,
                      cudnnConvolutionDescriptor_t& to) {
  constexpr int most = CUDNN_DIM_MAX - 2;  // more is refused
  int rank = 0, groups = 1;
  Numbers padding{}, stride{}, dilation{};
  cudnnConvolutionMode_t mode;
  cudnnDataType_t type;
  cudnnMathType_t math;
  cudnnReorderType_t reorder;
  return done(scope, real_cudnnGetConvolutionNdDescriptor, from, most, &rank, padding.data(), stride.data(),
              dilation.data(), &mode, &type) &&
         rank <= most && done(scope, real_cudnnGetConvolutionGroupCount, from, &groups) &&
         done(scope, real_cudnnGetConvolutionMathType, from, &math) &&
         done(scope, real_cudnnGetConvolutionReorderType, from, &reorder) &&
         done(scope, real_cudnnCreateConvolutionDescriptor, &to) &&
         done(scope, real_cudnnSetConvolutionNdDescriptor, to, rank, padding.data(), stride.data(),
              dilation.data(), mode, type) &&
         done(scope, real_cudnnSetConvolutionGroupCount, to, groups) &&
         done(scope, real_cudnnSetConvolutionMathType, to, math) &&
         done(scope, real_cudnnSetConvolutionReorderType, to, reorder);
}

bool clone_descriptor(const Scope& scope, cudnnPoolingDescriptor_t from, cudnnPoolingDescriptor_t& to) {
  constexpr int most = CUDNN_DIM_MAX - 2;
  int rank = 0;
  Numbers window{}, padding{}, stride{};
  cudnnPoolingMode_t mode;
  cudnnNanPropagation_t nan;
  return done(scope, real_cudnnGetPoolingNdDescriptor, from, most, &mode, &nan, &rank, window.data(),
              padding.data(), stride.data()) &&
         rank <= most && done(scope, real_cudnnCreatePoolingDescriptor, &to) &&
         done(scope, real_cudnnSetPoolingNdDescriptor, to, mode, nan, rank, window.data(), padding.data(),
              stride.data());
}

bool clone_descriptor(const Scope& scope, cudnnActivationDescriptor_t from, cudnnActivationDescriptor_t& to) {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double coefficient = 0, swish_beta = 1;
  if (!done(scope, real_cudnnGetActivationDescriptor, from, &mode, &nan, &coefficient) ||
      !done(scope, real_cudnnCreateActivationDescriptor, &to) ||
      !done(scope, real_cudnnSetActivationDescriptor, to, mode, nan, coefficient))
    return false;
  return mode != CUDNN_ACTIVATION_SWISH ||
         (done(scope, real_cudnnGetActivationDescriptorSwishBeta, from, &swish_beta) &&
          done(scope, real_cudnnSetActivationDescriptorSwishBeta, to, swish_beta));
}

bool clone_descriptor(const Scope& scope, cudnnOpTensorDescriptor_t from, cudnnOpTensorDescriptor_t& to) {
  cudnnOpTensorOp_t operation;
  cudnnDataType_t type;
  cudnnNanPropagation_t nan;
  return done(scope, real_cudnnGetOpTensorDescriptor, from, &operation, &type, &nan) &&
         done(scope, real_cudnnCreateOpTensorDescriptor, &to) &&
         done(scope, real_cudnnSetOpTensorDescriptor, to, operation, type, nan);
}

bool clone_descriptor(const Scope& scope, cudnnReduceTensorDescriptor_t from,
                      cudnnReduceTensorDescriptor_t& to) {
  cudnnReduceTensorOp_t operation;
  cudnnDataType_t type;
  cudnnNanPropagation_t nan;
  cudnnReduceTensorIndices_t indices;
  cudnnIndicesType_t index_type;
  return done(scope, real_cudnnGetReduceTensorDescriptor, from, &operation, &type, &nan, &indices,
              &index_type) &&
         done(scope, real_cudnnCreateReduceTensorDescriptor, &to) &&
         done(scope, real_cudnnSetReduceTensorDescriptor, to, operation, type, nan, indices, index_type);
}

bool clone_descriptor(const Scope& scope, cudnnLRNDescriptor_t from, cudnnLRNDescriptor_t& to) {
  unsigned channels = 0;
  double alpha = 0, beta = 0, k = 0;
  return done(scope, real_cudnnGetLRNDescriptor, from, &channels, &alpha, &beta, &k) &&
         done(scope, real_cudnnCreateLRNDescriptor, &to) &&
         done(scope, real_cudnnSetLRNDescriptor, to, channels, alpha, beta, k);
}

bool clone_descriptor(const Scope& scope, cudnnTensorTransformDescriptor_t from, int rank,
                      cudnnTensorTransformDescriptor_t& to) {
  const auto dimensions = static_cast<std::uint32_t>(rank);
  cudnnTensorFormat_t format;
  std::array<std::int32_t, CUDNN_DIM_MAX> before{}, after{};
  std::array<std::uint32_t, CUDNN_DIM_MAX> fold{};
  cudnnFoldingDirection_t direction;
  return done(scope, real_cudnnGetTensorTransformDescriptor, from, dimensions, &format, before.data(),
              after.data(), fold.data(), &direction) &&
         done(scope, real_cudnnCreateTensorTransformDescriptor, &to) &&
         done(scope, real_cudnnSetTensorTransformDescriptor, to, dimensions, format, before.data(),
              after.data(), fold.data(), direction);
}

void destroy_descriptor(cudnnTensorDescriptor_t descriptor) {
  destroy(real_cudnnDestroyTensorDescriptor, descriptor);
}
void destroy_descriptor(cudnnFilterDescriptor_t descriptor) {
  destroy(real_cudnnDestroyFilterDescriptor, descriptor);
}
void destroy_descriptor(cudnnConvolutionDescriptor_t descriptor) {
  destroy(real_cudnnDestroyConvolutionDescriptor, descriptor);
}
void destroy_descriptor(cudnnPoolingDescriptor_t descriptor) {
  destroy(real_cudnnDestroyPoolingDescriptor, descriptor);
}
void destroy_descriptor(cudnnActivationDescriptor_t descriptor) {
  destroy(real_cudnnDestroyActivationDescriptor, descriptor);
}
void destroy_descriptor(cudnnOpTensorDescriptor_t descriptor) {
  destroy(real_cudnnDestroyOpTensorDescriptor, descriptor);
}
void destroy_descriptor(cudnnReduceTensorDescriptor_t descriptor) {
  destroy(real_cudnnDestroyReduceTensorDescriptor, descriptor);
}
void destroy_descriptor(cudnnLRNDescriptor_t descriptor) {
  destroy(real_cudnnDestroyLRNDescriptor, descriptor);
}
void destroy_descriptor(cudnnTensorTransformDescriptor_t descriptor) {
  destroy(real_cudnnDestroyTensorTransformDescriptor, descriptor);
}

KeptDescriptor<cudnnTensorTransformDescriptor_t> keep_transform(const Keeping& keeping,
                                                                cudnnTensorTransformDescriptor_t from,
                                                                cudnnTensorDescriptor_t source) {
  TensorText text;
  const bool known = text.read(keeping.scope, source);
  return keep_transform(keeping, from, known, text.rank);
}
KeptDescriptor<cudnnTensorTransformDescriptor_t> keep_transform(const Keeping& keeping,
                                                                cudnnTensorTransformDescriptor_t from,
                                                                cudnnFilterDescriptor_t source) {
  FilterText text;
  const bool known = text.read(keeping.scope, source);
  return keep_transform(keeping, from, known, text.rank);
}

KeptScalar keep_scalar(const Keeping& keeping, const void* factor, cudnnTensorDescriptor_t descriptor) {
  TensorText text;
  return {factor, text.read(keeping.scope, descriptor) ? factor_bytes(text.type) : 0};
}
KeptScalar keep_scalar(const Keeping& keeping, const void* factor, cudnnFilterDescriptor_t descriptor) {
  FilterText text;
  return {factor, text.read(keeping.scope, descriptor) ? factor_bytes(text.type) : 0};
}
KeptScalar keep_element(const Keeping& keeping, const void* value, cudnnTensorDescriptor_t tensor) {
  TensorText text;
  return {value, text.read(keeping.scope, tensor) ? element_bytes(text.type) : 0};
}

KeptCudnnHandle keep_handle(const Keeping& keeping, cudnnHandle_t) {
  static const cudnnHandle_t own = [&] {
    cudnnHandle_t made = nullptr;
    if (real_cudnnSetStream.get(keeping.scope) != nullptr && done(keeping.scope, real_cudnnCreate, &made))
      return made;
    log::warn(
        "cuDNN gives no second handle: what its calls computed is copied, and none of it computed again");
    return cudnnHandle_t{};
  }();
  return KeptCudnnHandle(own);
}

int KeptCudnnHandle::prepare(const Run& run) {
  const auto stream = run.stream == StreamHandle::legacy ? 0 : static_cast<std::uintptr_t>(run.stream);
  return real_cudnnSetStream.known()(own_, reinterpret_cast<cudaStream_t>(stream));
}

}  // namespace pooch::interpose
