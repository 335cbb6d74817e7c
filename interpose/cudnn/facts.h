// What has to be asked of cuDNN about a call: the stream, sizes behind descriptors, the type of scalars.
#pragma once

#include <cudnn.h>

#include <optional>

#include "core/ids.h"
#include "interpose/calls/call_builder.h"
#include "interpose/calls/extent.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

template <>
struct NotMade<cudnnStatus_t> {
  static constexpr cudnnStatus_t status = CUDNN_STATUS_EXECUTION_FAILED;
};

StreamHandle cudnn_stream(const Scope& scope, cudnnHandle_t handle);
// From the first to the last element; Extent::unknown() where cuDNN does not say. A tensor's is valid until
// the next one's is asked for.
const Extent& tensor_extent(const Scope& scope, cudnnTensorDescriptor_t tensor);
Extent filter_extent(const Scope& scope, cudnnFilterDescriptor_t filter);
// The type of its elements; none where cuDNN does not say.
std::optional<cudnnDataType_t> tensor_type(const Scope& scope, cudnnTensorDescriptor_t tensor);
// Whether the blending factor differs from zero. It is a double where `tensor` holds doubles, else a float. A
// scalar that cannot be judged counts as different.
bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnTensorDescriptor_t tensor);
bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnFilterDescriptor_t filter);
// Where cuDNN keeps the random states of a dropout descriptor; null where there is none.
void* dropout_states(const Scope& scope, cudnnHandle_t handle, cudnnDropoutDescriptor_t dropout);
// The dropout descriptor inside an RNN descriptor; null where there is none.
cudnnDropoutDescriptor_t rnn_dropout(const Scope& scope, cudnnRNNDescriptor_t rnn);
// All sequences of a batch, with their padding where the layout has it.
Extent rnn_data_extent(const Scope& scope, cudnnRNNDataDescriptor_t data);

Scalar scalar_of(const Scope& scope, const void* scalar, cudnnTensorDescriptor_t tensor);
Scalar scalar_of(const Scope& scope, const void* scalar, cudnnFilterDescriptor_t filter);

// What an operation's descriptor says: a hash of it, its window and its mode.
void add_traits(const Scope& scope, CallBuilder& call, cudnnConvolutionDescriptor_t convolution);
void add_traits(const Scope& scope, CallBuilder& call, cudnnPoolingDescriptor_t pooling);
void add_traits(const Scope& scope, CallBuilder& call, cudnnActivationDescriptor_t activation);
void add_traits(const Scope& scope, CallBuilder& call, cudnnOpTensorDescriptor_t operation);
void add_traits(const Scope& scope, CallBuilder& call, cudnnReduceTensorDescriptor_t reduction);
void add_traits(const Scope& scope, CallBuilder& call, cudnnLRNDescriptor_t norm);

}  // namespace pooch::interpose
