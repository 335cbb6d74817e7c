// Kernels that number a tensor's elements (by N, C, …, whatever its strides): masks and random numbers belong
// to an element's number, not to its address.
#pragma once

#include "softgpu/cudnn/elements/layout.h"

namespace softgpu::cudnn {

// f(number of the first element, row) for each run of elements common to all tensors, in order.
template <std::size_t Count, class F>
void each_row(const std::array<Layout, Count>& layouts, F f) {
  const MergedLayouts<Count> merged(layouts);
  const std::int64_t rows = merged.rows();
  for (std::int64_t i = 0; i < rows; ++i) {
    const Row<Count> row = merged.row(i);
    f(i * row.length, row);
  }
}

// One bit per element.
inline std::uint64_t mask_bytes(std::int64_t elements) {
  constexpr std::uint64_t alignment = 16;
  return ((static_cast<std::uint64_t>(elements) + 7) / 8 + alignment - 1) / alignment * alignment;
}
inline bool mask_bit(const std::uint8_t* mask, std::int64_t element) {
  return (mask[element / 8] >> (element % 8) & 1) != 0;
}

}  // namespace softgpu::cudnn
