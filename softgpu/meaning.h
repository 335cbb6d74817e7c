// What steps of kernels mean that several kernels have: a batch norm that is made again in another way leaves
// the same bits, and so the same tokens (driver/checks/provenance.h).
#pragma once

#include <cstdint>

#include "softgpu/hash.h"

namespace softgpu {

// y of batch norm from x, scale, bias, the mean and the inverse of the standard deviation, in this order.
// Packed: `rows` of `row` elements each; a row, or each of its elements, belongs to one of `channels`.
struct NormaliseMeaning {
  std::uint64_t rows, row, channels;
  bool channel_of_row, half;
  std::uint32_t formula;

  std::uint64_t identity() const {
    return Hash()
        .add("normalise")
        .add(rows)
        .add(row)
        .add(channels)
        .add(channel_of_row)
        .add(half)
        .add(formula)
        .value();
  }
};
// As cuDNN's batch norm rounds here: fma(x - mean, scale * inverse, bias).
inline constexpr std::uint32_t own_formula = 2;

// max(x, 0) of one tensor; NaN stays or becomes 0.
inline std::uint64_t clip_identity(std::uint64_t elements, std::uint64_t element_bytes, bool keeps_nan) {
  return Hash().add("clip").add(elements).add(element_bytes).add(keeps_nan).value();
}

}  // namespace softgpu
