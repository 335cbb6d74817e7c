// What kinds of ops mean for layers.
#pragma once

#include <string>

#include "core/profile.h"

namespace pooch::tracker {

// "convolution", "batch_norm", "relu", … as people call it.
std::string layer_kind(const ProfileOp& forward);
// Whether the op's result may lie where an input lies.
bool works_in_place(OpKind kind);
// Whether it takes data and weights, so that one without an activation among its inputs is a first layer.
bool takes_data(OpKind kind);
bool has_parameters(OpKind kind);
// Whether `op` may be (part of) the backward pass of `forward`.
bool is_backward_of(const ProfileOp& op, const ProfileOp& forward);
// Bytes of the elements alone; `span` where the shape is not known.
std::uint64_t shape_bytes(const Shape& shape, std::uint64_t span);

}  // namespace pooch::tracker
