// What kinds of ops mean for layers.
#pragma once

#include <string>

#include "core/profile.h"

namespace pooch::tracker {

// "convolution", "batch_norm", "relu", …: the usual name.
std::string layer_kind(const ProfileOp& forward);
// Bytes of the elements alone; `span` if the shape is not known.
std::uint64_t shape_bytes(const Shape& shape, std::uint64_t span);

}  // namespace pooch::tracker
