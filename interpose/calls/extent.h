// How many bytes an operand spans, computed from a call's parameters. The spec's rows use these by name.
#pragma once

#include <concepts>
#include <cstdint>
#include <cstdlib>

#include "core/shape.h"
#include "interpose/hooks/driver_api.h"

namespace pooch::interpose {

// `bytes` from `offset` bytes after the operand's pointer.
struct Extent {
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  // Every byte of the span belongs to the operand. If not, overwriting the operand leaves some of the span's
  // bytes as they were.
  bool dense = true;
  // False where the size cannot be found out: then it is the rest of the allocation, and nothing is
  // overwritten.
  bool known = true;
  // The operand is an array of addresses in device memory, where nobody looks: any live allocation may be
  // meant.
  bool anywhere = false;
  // What a descriptor told of the operand, for people (shape) and as a hash of everything (traits).
  bool filter = false;
  std::uint64_t traits = 0;
  Shape shape{};

  constexpr Extent() = default;
  template <std::integral Bytes>
  constexpr Extent(Bytes count)
      : bytes(count > 0 ? static_cast<std::uint64_t>(count) : 0) {}  // NOLINT: implicit
  constexpr Extent(std::uint64_t span, bool is_dense, std::uint64_t from = 0)
      : bytes(span), offset(from), dense(is_dense) {}

  static constexpr Extent unknown() {
    Extent extent(std::uint64_t{1}, false);
    extent.known = false;
    return extent;
  }
};

constexpr Extent anywhere() {
  Extent extent = Extent::unknown();
  extent.anywhere = true;
  return extent;
}

// Column-major, as in BLAS: columns start `leading` elements apart.
constexpr Extent matrix(std::int64_t rows, std::int64_t columns, std::int64_t leading,
                        std::uint64_t element) {
  if (rows <= 0 || columns <= 0) return {};
  const std::int64_t span = (columns - 1) * leading + rows;
  Extent extent(static_cast<std::uint64_t>(span) * element, leading == rows || columns == 1);
  extent.shape = {2,
                  static_cast<std::uint8_t>(element),
                  {static_cast<std::int32_t>(columns), static_cast<std::int32_t>(rows)}};
  return extent;
}

// `count` matrices that start `stride` elements apart (0: the same one every time).
constexpr Extent batched(Extent one, std::int64_t stride, std::int64_t count, std::uint64_t element) {
  if (one.bytes == 0 || count <= 0) return {};
  const std::int64_t last = (count - 1) * stride * static_cast<std::int64_t>(element);
  if (last < 0)
    return {one.bytes + static_cast<std::uint64_t>(-last), false, 0 - static_cast<std::uint64_t>(-last)};
  const bool gapless =
      count == 1 || (stride > 0 && static_cast<std::uint64_t>(stride) * element <= one.bytes);
  return {one.bytes + static_cast<std::uint64_t>(last), one.dense && gapless};
}

// A vector whose elements are |increment| apart; the pointer is to its lowest address for either sign.
constexpr Extent vector(std::int64_t count, std::int64_t increment, std::uint64_t element) {
  if (count <= 0) return {};
  const std::int64_t step = increment < 0 ? -increment : increment;
  return {(static_cast<std::uint64_t>((count - 1) * step) + 1) * element, step == 1 || count == 1};
}

// A triangle of an n × n matrix, stored without gaps.
constexpr Extent packed_triangle(std::int64_t n, std::uint64_t element) {
  return n <= 0 ? Extent()
                : Extent(static_cast<std::uint64_t>(n) * (static_cast<std::uint64_t>(n) + 1) / 2 * element);
}

static_assert(matrix(3, 2, 5, 4).bytes == 32 && !matrix(3, 2, 5, 4).dense && matrix(3, 2, 3, 4).dense);
static_assert(batched(matrix(3, 2, 3, 4), 6, 4, 4).bytes == 96 && batched(matrix(3, 2, 3, 4), 6, 4, 4).dense);
static_assert(!batched(matrix(3, 2, 3, 4), 7, 4, 4).dense, "gaps between the matrices");
static_assert(batched(matrix(3, 2, 3, 4), -6, 2, 4).offset + 24 == 0, "begins before the pointer");
static_assert(vector(3, -2, 4).bytes == 20 && !vector(3, -2, 4).dense && vector(0, 1, 4).bytes == 0);
static_assert(packed_triangle(3, 4).bytes == 24);

// `height` rows of `width` bytes that start `pitch` bytes apart.
constexpr Extent pitched(std::uint64_t pitch, std::uint64_t width, std::uint64_t height) {
  if (width == 0 || height == 0) return {};
  return {(height - 1) * pitch + width, height == 1 || pitch == width};
}

// --- one side of a cuMemcpy2D or cuMemcpy3D, between memory of any type
struct Side {
  CUdeviceptr address = 0;  // 0 for an array
  Extent extent;
};

namespace detail {
constexpr Side side(CUmemorytype type, CUdeviceptr device, const void* host, Extent extent) {
  if (type == CU_MEMORYTYPE_ARRAY) return {};
  // A host pointer is never managed; it is given all the same and ignored later.
  if (type == CU_MEMORYTYPE_HOST) return {reinterpret_cast<CUdeviceptr>(host), extent};
  return {device, extent};
}
inline Extent box(std::uint64_t x, std::uint64_t y, std::uint64_t z, std::uint64_t pitch,
                  std::uint64_t slice_rows, std::uint64_t width, std::uint64_t height, std::uint64_t depth) {
  if (width == 0 || height == 0 || depth == 0) return {};
  const std::uint64_t slice = pitch * slice_rows;
  const Extent rows = pitched(pitch, width, height);
  const bool dense = rows.dense && (depth == 1 || slice == rows.bytes);
  return {(depth - 1) * slice + rows.bytes, dense, z * slice + y * pitch + x};
}
}  // namespace detail

inline Side source_of(const CUDA_MEMCPY2D& c) {
  return detail::side(c.srcMemoryType, c.srcDevice, c.srcHost,
                      detail::box(c.srcXInBytes, c.srcY, 0, c.srcPitch, 0, c.WidthInBytes, c.Height, 1));
}
inline Side destination_of(const CUDA_MEMCPY2D& c) {
  return detail::side(c.dstMemoryType, c.dstDevice, c.dstHost,
                      detail::box(c.dstXInBytes, c.dstY, 0, c.dstPitch, 0, c.WidthInBytes, c.Height, 1));
}
// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER
template <class Copy>
Side source_of(const Copy& c) {
  return detail::side(
      c.srcMemoryType, c.srcDevice, c.srcHost,
      detail::box(c.srcXInBytes, c.srcY, c.srcZ, c.srcPitch, c.srcHeight, c.WidthInBytes, c.Height, c.Depth));
}
template <class Copy>
Side destination_of(const Copy& c) {
  return detail::side(
      c.dstMemoryType, c.dstDevice, c.dstHost,
      detail::box(c.dstXInBytes, c.dstY, c.dstZ, c.dstPitch, c.dstHeight, c.WidthInBytes, c.Height, c.Depth));
}

// One side of a copy of cuMemcpy3DBatchAsync. Rows and layers may be longer than what is copied of them. They
// are counted in bytes between two addresses, and in elements of unknown size where the other side is an
// array.
namespace detail {
inline Side side(const CUmemcpy3DOperand& operand, const CUmemcpy3DOperand& other, const CUextent3D& extent) {
  if (operand.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return {};
  const auto& at = operand.op.ptr;
  if (other.type != CU_MEMCPY_OPERAND_TYPE_POINTER) return {at.ptr, Extent::unknown()};
  const std::uint64_t row = at.rowLength == 0 ? extent.width : at.rowLength;
  const std::uint64_t layer = at.layerHeight == 0 ? extent.height : at.layerHeight;
  return {at.ptr, box(0, 0, 0, row, layer, extent.width, extent.height, extent.depth)};
}
}  // namespace detail
inline Side source_of(const CUDA_MEMCPY3D_BATCH_OP& op) {
  return detail::side(op.src, op.dst, op.extent);
}
inline Side destination_of(const CUDA_MEMCPY3D_BATCH_OP& op) {
  return detail::side(op.dst, op.src, op.extent);
}

// The operand's allocation from its beginning to its end.
inline Extent unknown_extent() {
  return Extent::unknown();
}

}  // namespace pooch::interpose
