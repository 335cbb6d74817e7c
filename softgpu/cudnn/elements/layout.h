// Shape and strides of a tensor, as a kernel gets them by value.
#pragma once

#include <array>
#include <cstdint>

#include "softgpu/image.h"

namespace softgpu::cudnn {

inline constexpr int max_rank = 8;  // CUDNN_DIM_MAX

// Dimensions and strides in elements, outermost first (N, C, spatial…).
struct Layout {
  std::int32_t rank;
  std::int64_t dims[max_rank];
  std::int64_t strides[max_rank];
};

std::int64_t element_count(const Layout& l);
// Elements from the first to the last one, both included.
std::int64_t element_span(const Layout& l);
bool same_dims(const Layout& a, const Layout& b);
bool same_layout(const Layout& a, const Layout& b);
// `part` may be stretched over `whole`: equal dimensions, or 1.
bool broadcastable(const Layout& part, const Layout& whole);
// `part` with stride 0 where it is stretched, and the dimensions of `whole`.
Layout stretched(const Layout& part, const Layout& whole);
// Row-major without gaps.
Layout packed(std::initializer_list<std::int64_t> dims);
// The same dimensions, row-major without gaps.
Layout packed_like(const Layout& l);
// Distance between two elements of the last dimensions from `first` on, seen as one; 0 where they are not one
// run.
std::int64_t merged_stride(const Layout& l, int first);

// The contiguous runs of a tensor at `address`, one touch each; `element` is in bytes.
void add_touches(Footprint& out, std::uint64_t address, const Layout& l, TouchKind kind,
                 std::uint64_t element = sizeof(float));
inline void add_touch(Footprint& out, std::uint64_t address, std::uint64_t bytes, TouchKind kind) {
  if (address != 0 && bytes != 0) out.touches.push_back({address, bytes, kind});
}
// The number of runs that add_touches would report.
std::int64_t run_count(const Layout& l);
// What `y = result + beta * y` does to y.
inline TouchKind written(float beta) {
  return beta == 0.0F ? TouchKind::write : TouchKind::read_write;
}

// One run of elements common to several tensors of equal dimensions.
template <std::size_t Count>
struct Row {
  std::array<std::int64_t, Count> offsets;
  std::array<std::int64_t, Count> strides;
  std::int64_t length;
};

// Dimensions of several tensors with neighbours merged wherever all of them allow it; at least one dimension.
template <std::size_t Count>
struct MergedLayouts {
  int rank = 0;
  std::int64_t dims[max_rank] = {};                        // outermost first
  std::array<std::int64_t, Count> strides[max_rank] = {};  // per dimension

  explicit MergedLayouts(const std::array<Layout, Count>& layouts) {
    const Layout& first = layouts[0];
    for (int d = 0; d < first.rank; ++d) {
      if (first.dims[d] == 1) continue;
      std::array<std::int64_t, Count> step{};
      for (std::size_t k = 0; k < Count; ++k) step[k] = layouts[k].strides[d];
      bool merge = rank > 0;
      for (std::size_t k = 0; k < Count && merge; ++k)
        merge = strides[rank - 1][k] == step[k] * first.dims[d];
      if (merge) {
        dims[rank - 1] *= first.dims[d];
        strides[rank - 1] = step;
      } else {
        dims[rank] = first.dims[d];
        strides[rank++] = step;
      }
    }
    if (rank == 0) {
      dims[rank++] = 1;
      strides[0].fill(1);
    }
  }

  std::int64_t rows() const {
    std::int64_t result = 1;
    for (int d = 0; d + 1 < rank; ++d) result *= dims[d];
    return result;
  }
  // Rows are numbered in the tensors' order.
  Row<Count> row(std::int64_t index) const {
    Row<Count> result{{}, strides[rank - 1], dims[rank - 1]};
    for (int d = rank - 2; d >= 0; --d) {
      const std::int64_t at = index % dims[d];
      index /= dims[d];
      for (std::size_t k = 0; k < Count; ++k) result.offsets[k] += at * strides[d][k];
    }
    return result;
  }
};

}  // namespace softgpu::cudnn
