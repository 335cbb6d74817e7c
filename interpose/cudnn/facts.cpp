#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "core/hash.h"
#include "interpose/cudnn/facts.h"
#include "interpose/cudnn/text.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnGetStream);
POOCH_REAL(cudnn, cudnnGetTensorSizeInBytes);
POOCH_REAL(cudnn, cudnnGetFilterSizeInBytes);
POOCH_REAL(cudnn, cudnnGetDropoutDescriptor);
POOCH_REAL(cudnn, cudnnGetRNNDescriptor_v8);
POOCH_REAL(cudnn, cudnnGetRNNDataDescriptor);

// Shape and hash of what a descriptor says.
void describe(cudnnDataType_t type, int rank, const Numbers& dimensions, const Numbers& strides,
              Extent& extent) {
  extent.shape.rank = static_cast<std::uint8_t>(std::min(rank, max_rank));
  extent.shape.element_bytes = static_cast<std::uint8_t>(element_bytes(type));
  std::copy_n(dimensions.begin(), extent.shape.rank, extent.shape.sizes.begin());
  extent.traits = mix(extent.traits, static_cast<std::uint64_t>(type));
  for (std::size_t i = 0; i < static_cast<std::size_t>(rank); ++i)
    extent.traits = mix(extent.traits, static_cast<std::uint64_t>(dimensions[i]) << 32 ^
                                           static_cast<std::uint32_t>(strides[i]));
}

// Whether the elements fill the span without gaps.
bool is_dense(const TensorText& shape, std::uint64_t span_bytes) {
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < static_cast<std::size_t>(shape.rank); ++i) {
    elements *= static_cast<std::uint64_t>(shape.dimensions[i]);
    if (shape.strides[i] == 0 && shape.dimensions[i] > 1) return false;
  }
  const std::uint64_t element = element_bytes(shape.type);
  return element != 0 && elements * element == span_bytes;
}

template <class Real>
bool not_zero_of_type(const void* scalar, Real) {
  Real value;
  std::memcpy(&value, scalar, sizeof value);
  return value != Real{};
}

bool not_zero(const void* scalar, bool type_known, cudnnDataType_t type) {
  if (scalar == nullptr || !type_known) return true;
  return type == CUDNN_DATA_DOUBLE ? not_zero_of_type(scalar, double{}) : not_zero_of_type(scalar, float{});
}

// What is known of a tensor descriptor.
struct TensorFacts {
  cudnnTensorDescriptor_t tensor = nullptr;
  bool known = false;  // the type, and the extent's shape
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  Extent extent = Extent::unknown();
};

// Apart from facts_of, which is asked far more often than this.
[[gnu::noinline]] const TensorFacts& ask(const Scope& scope, cudnnTensorDescriptor_t tensor,
                                         TensorFacts& facts) {
  TensorText shape;
  facts.tensor = tensor;
  facts.known = shape.read(scope, tensor);
  facts.type = shape.type;
  auto* const get = real_cudnnGetTensorSizeInBytes.get(scope);
  std::size_t bytes = 0;
  const bool sized = get != nullptr && get(tensor, &bytes) == CUDNN_STATUS_SUCCESS;
  // Made where it stays: a copy that follows at once would wait for each of its parts to be written.
  std::construct_at(&facts.extent, sized ? bytes : 1, sized && facts.known && is_dense(shape, bytes));
  facts.extent.known = sized;
  if (sized && facts.known) describe(shape.type, shape.rank, shape.dimensions, shape.strides, facts.extent);
  return facts;
}

// Operands and factors of one call share descriptors, and asking cuDNN costs more than all else that a call
// in steady state pays. So answers are kept, for one call: between calls the program may change a descriptor.
const TensorFacts& facts_of(const Scope& scope, cudnnTensorDescriptor_t tensor) {
  struct Answers {
    std::uint64_t call = 0;
    std::size_t count = 0;
    std::array<TensorFacts, 4> all;
  };
  [[gnu::tls_model("initial-exec")]] static thread_local constinit Answers answers;
  if (answers.call != scope.call()) answers.call = scope.call(), answers.count = 0;
  const std::size_t known = std::min(answers.count, answers.all.size());
  for (std::size_t i = 0; i < known; ++i)
    if (answers.all[i].tensor == tensor) return answers.all[i];
  return ask(scope, tensor, answers.all[answers.count++ % answers.all.size()]);
}

}  // namespace

StreamHandle cudnn_stream(const Scope& scope, cudnnHandle_t handle) {
  cudaStream_t stream = nullptr;
  auto* const get = real_cudnnGetStream.get(scope);
  if (get == nullptr || get(handle, &stream) != CUDNN_STATUS_SUCCESS) stream = nullptr;
  return stream_of(stream);
}

std::optional<cudnnDataType_t> tensor_type(const Scope& scope, cudnnTensorDescriptor_t tensor) {
  if (tensor == nullptr) return std::nullopt;
  const TensorFacts& facts = facts_of(scope, tensor);
  return facts.known ? std::optional(facts.type) : std::nullopt;
}

// No descriptor: there is no operand either, or cuDNN refuses the call.
const Extent& tensor_extent(const Scope& scope, cudnnTensorDescriptor_t tensor) {
  static constexpr Extent unknown = Extent::unknown();
  if (tensor == nullptr) return unknown;
  return facts_of(scope, tensor).extent;
}

Extent filter_extent(const Scope& scope, cudnnFilterDescriptor_t filter) {
  if (filter == nullptr) return Extent::unknown();
  auto* const get = real_cudnnGetFilterSizeInBytes.get(scope);
  std::size_t bytes = 0;
  if (get == nullptr || get(filter, &bytes) != CUDNN_STATUS_SUCCESS) return Extent::unknown();
  Extent extent(bytes);  // filters have no strides
  extent.filter = true;
  FilterText shape;
  if (shape.read(scope, filter)) {
    describe(shape.type, shape.rank, shape.dimensions, {}, extent);
    extent.traits = mix(extent.traits, shape.format);
  }
  return extent;
}

bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnTensorDescriptor_t tensor) {
  const auto type = tensor_type(scope, tensor);
  return not_zero(scalar, type.has_value(), type.value_or(CUDNN_DATA_FLOAT));
}

bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnFilterDescriptor_t filter) {
  FilterText shape;
  const bool known = filter != nullptr && shape.read(scope, filter);
  return not_zero(scalar, known, shape.type);
}

void* dropout_states(const Scope& scope, cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout) {
  if (dropout == nullptr) return nullptr;
  float probability = 0;
  void* states = nullptr;
  unsigned long long seed = 0;
  auto* const get = real_cudnnGetDropoutDescriptor.get(scope);
  if (get == nullptr || get(dropout, handle, &probability, &states, &seed) != CUDNN_STATUS_SUCCESS)
    return nullptr;
  return states;
}

cudnnDropoutDescriptor_t rnn_dropout(const Scope& scope, cudnnRNNDescriptor_t rnn) {
  if (rnn == nullptr) return nullptr;
  cudnnRNNAlgo_t algorithm;
  cudnnRNNMode_t cell;
  cudnnRNNBiasMode_t bias;
  cudnnDirectionMode_t direction;
  cudnnRNNInputMode_t input;
  cudnnDataType_t data, math;
  cudnnMathType_t math_type;
  std::int32_t input_size, hidden_size, projection_size, layers;
  cudnnDropoutDescriptor_t dropout = nullptr;
  std::uint32_t flags;
  auto* const get = real_cudnnGetRNNDescriptor_v8.get(scope);
  if (get == nullptr ||
      get(rnn, &algorithm, &cell, &bias, &direction, &input, &data, &math, &math_type, &input_size,
          &hidden_size, &projection_size, &layers, &dropout, &flags) != CUDNN_STATUS_SUCCESS)
    return nullptr;
  return dropout;
}

Extent rnn_data_extent(const Scope& scope, cudnnRNNDataDescriptor_t data) {
  if (data == nullptr) return Extent::unknown();
  cudnnDataType_t type;
  cudnnRNNDataLayout_t layout;
  int longest = 0, batch = 0, vector_size = 0;
  double fill;  // of any element type
  auto* const get = real_cudnnGetRNNDataDescriptor.get(scope);
  if (get == nullptr ||
      get(data, &type, &layout, &longest, &batch, &vector_size, 0, nullptr, &fill) != CUDNN_STATUS_SUCCESS)
    return Extent::unknown();
  const std::uint64_t element = element_bytes(type);
  if (element == 0 || batch <= 0) return Extent::unknown();
  auto steps = static_cast<std::uint64_t>(longest) * static_cast<std::uint64_t>(batch);
  const bool packed = layout == CUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
  if (packed) {
    std::vector<int> lengths(static_cast<std::size_t>(batch));
    if (get(data, &type, &layout, &longest, &batch, &vector_size, batch, lengths.data(), &fill) !=
        CUDNN_STATUS_SUCCESS)
      return Extent::unknown();
    steps = 0;
    for (const int length : lengths) steps += static_cast<std::uint64_t>(length);
  }
  // Padding may stay as it was.
  return {steps * static_cast<std::uint64_t>(vector_size) * element, packed};
}

}  // namespace pooch::interpose
