// How cuDNN's descriptors, factors and handles are kept for a replay.
#pragma once

#include <cudnn.h>

#include "interpose/calls/replay_call.h"

namespace pooch::interpose {

// Deep copies by the real library's own queries and setters. False where a descriptor says something that
// they do not carry over; the caller then has no recipe.
bool clone_descriptor(const Scope& scope, cudnnTensorDescriptor_t from, cudnnTensorDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnFilterDescriptor_t from, cudnnFilterDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnConvolutionDescriptor_t from,
                      cudnnConvolutionDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnPoolingDescriptor_t from, cudnnPoolingDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnActivationDescriptor_t from, cudnnActivationDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnOpTensorDescriptor_t from, cudnnOpTensorDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnReduceTensorDescriptor_t from,
                      cudnnReduceTensorDescriptor_t& to);
bool clone_descriptor(const Scope& scope, cudnnLRNDescriptor_t from, cudnnLRNDescriptor_t& to);
// `rank` of the tensors that it transforms: the descriptor does not tell.
bool clone_descriptor(const Scope& scope, cudnnTensorTransformDescriptor_t from, int rank,
                      cudnnTensorTransformDescriptor_t& to);

void destroy_descriptor(cudnnTensorDescriptor_t descriptor);
void destroy_descriptor(cudnnFilterDescriptor_t descriptor);
void destroy_descriptor(cudnnConvolutionDescriptor_t descriptor);
void destroy_descriptor(cudnnPoolingDescriptor_t descriptor);
void destroy_descriptor(cudnnActivationDescriptor_t descriptor);
void destroy_descriptor(cudnnOpTensorDescriptor_t descriptor);
void destroy_descriptor(cudnnReduceTensorDescriptor_t descriptor);
void destroy_descriptor(cudnnLRNDescriptor_t descriptor);
void destroy_descriptor(cudnnTensorTransformDescriptor_t descriptor);

template <class Descriptor>
KeptDescriptor<Descriptor> keep_descriptor(const Keeping& keeping, Descriptor from) {
  Descriptor clone = nullptr;
  const bool kept = from == nullptr || clone_descriptor(keeping.scope, from, clone);
  return {clone, destroy_descriptor, kept};
}
KeptDescriptor<cudnnTensorTransformDescriptor_t> keep_transform(const Keeping& keeping,
                                                                cudnnTensorTransformDescriptor_t from,
                                                                cudnnTensorDescriptor_t source);
KeptDescriptor<cudnnTensorTransformDescriptor_t> keep_transform(const Keeping& keeping,
                                                                cudnnTensorTransformDescriptor_t from,
                                                                cudnnFilterDescriptor_t source);

// A blending factor: a double where the descriptor's elements are doubles, else a float.
KeptScalar keep_scalar(const Keeping& keeping, const void* factor, cudnnTensorDescriptor_t descriptor);
KeptScalar keep_scalar(const Keeping& keeping, const void* factor, cudnnFilterDescriptor_t descriptor);
// One element of the tensor's own type.
KeptScalar keep_element(const Keeping& keeping, const void* value, cudnnTensorDescriptor_t tensor);

// Our own handle: one per process, made with the first call that is kept. cuDNN's handles have no settings
// but the stream.
class KeptCudnnHandle : public KeptArgument {
 public:
  explicit KeptCudnnHandle(cudnnHandle_t own) : own_(own) {}
  bool kept() const { return own_ != nullptr; }
  int prepare(const Run& run);
  cudnnHandle_t in(const Run&) const { return own_; }

 private:
  cudnnHandle_t own_;
};
KeptCudnnHandle keep_handle(const Keeping& keeping, cudnnHandle_t programs);

}  // namespace pooch::interpose
