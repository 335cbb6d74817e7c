// Which batch norms can be made again from the statistics that they saved, and what else clips below zero.
#pragma once

#include <cudnn.h>

#include <optional>
#include <span>

#include "core/call.h"
#include "core/substitute.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

class LaunchParams;

// What a call for batch norm was given.
struct BatchNormCall {
  cudnnBatchNormMode_t mode;
  cudnnBatchNormOps_t ops;  // what else it does
  const void *alpha, *beta;
  cudnnTensorDescriptor_t x_descriptor, y_descriptor;
  BatchNormOperands<const void*> at;
};
// Nothing where the call does more than that, or its tensors have gaps or other types.
std::optional<Substitute> batch_norm_again(const Scope& scope, std::span<const Access> accesses,
                                           const BatchNormCall& call);

// cudnnActivationForward.
Clip clip_of(const Scope& scope, cudnnActivationDescriptor_t activation, const void* alpha, const void* beta,
             cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y);
// A launch of PyTorch's clamp: relu is one. `mode`: of its rule.
Clip clip_of(std::string_view mode, const LaunchParams& params);

}  // namespace pooch::interpose
