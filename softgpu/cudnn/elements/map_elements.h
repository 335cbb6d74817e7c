// The engine of all elementwise kernels: inputs are brought to local blocks, the operation works on those,
// the result is blended into the output. So any strides, broadcasts and in-place use cost one code path, and
// the operation's loop vectorises.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "softgpu/cudnn/elements/layout.h"
#include "softgpu/cudnn/elements/two_threads.h"

namespace softgpu::cudnn {

inline constexpr std::int64_t block_elements = 512;
using Block = float[block_elements];

inline void load_block(Block& to, const float* from, std::int64_t stride, std::int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  } else if (stride == 0) {
    std::fill(to, to + count, *from);
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

inline void store_block(float* to, const Block& from, std::int64_t stride, std::int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    for (std::int64_t i = 0; i < count; ++i) to[i * stride] = from[i];
  }
}

// out = op(inputs) + beta * out. `layouts[0]` is the output's, then the inputs' (stretched to its
// dimensions). op(const Block* inputs, Block& result, count) with count <= block_elements.
template <std::size_t Inputs, class Op>
void map_elements(float* out, const std::array<const float*, Inputs>& in,
                  const std::array<Layout, Inputs + 1>& layouts, float beta, Op op) {
  const MergedLayouts<Inputs + 1> merged(layouts);
  const std::int64_t length = merged.dims[merged.rank - 1];
  const std::int64_t blocks_per_row = (length + block_elements - 1) / block_elements;
  in_two(merged.rows() * blocks_per_row, [&](std::int64_t begin, std::int64_t end) {
    Block inputs[Inputs + 1];  // the last one holds the old output
    Block result;
    for (std::int64_t b = begin; b < end; ++b) {
      const auto row = merged.row(b / blocks_per_row);
      const std::int64_t first = b % blocks_per_row * block_elements;
      const std::int64_t count = std::min(block_elements, length - first);
      for (std::size_t k = 0; k < Inputs; ++k) {
        const std::int64_t stride = row.strides[k + 1];
        load_block(inputs[k], in[k] + row.offsets[k + 1] + first * stride, stride, count);
      }
      op(static_cast<const Block*>(inputs), result, count);
      float* to = out + row.offsets[0] + first * row.strides[0];
      if (beta != 0.0F) {
        load_block(inputs[Inputs], to, row.strides[0], count);
        for (std::int64_t i = 0; i < count; ++i) result[i] += beta * inputs[Inputs][i];
      }
      store_block(to, result, row.strides[0], count);
    }
  });
}

}  // namespace softgpu::cudnn
