// Descriptors of tensors in memory, which kernels get by value. The vendor's layout is not documented, and
// nobody reads one here: ours begins with the tensor's address.
#include <algorithm>
#include <cstring>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

constexpr int first_with_maps = 9;  // compute capability
constexpr cuuint32_t most_dimensions = 5;
constexpr std::uint64_t stride_unit = 16, unit_32_bytes = 32, longest_dimension = std::uint64_t{1} << 32,
                        longest_stride = std::uint64_t{1} << 40;
constexpr cuuint32_t largest_box = 256, largest_step = 8;

struct TensorMap {
  void* address;
  std::uint64_t dimensions[most_dimensions], strides[most_dimensions - 1];
  cuuint32_t box[most_dimensions];
  std::uint8_t steps[most_dimensions];
  std::uint8_t type, rank, interleave, swizzle, promotion, fill;
};
static_assert(sizeof(TensorMap) <= sizeof(CUtensorMap) && offsetof(TensorMap, address) == 0);

bool is_multiple(const void* pointer, std::uint64_t of) {
  return reinterpret_cast<std::uint64_t>(pointer) % of == 0;
}

// What cuda.h asks of each dimension.
bool well(const TensorMap& map, std::uint64_t unit) {
  for (cuuint32_t i = 0; i < map.rank; ++i) {
    if (map.dimensions[i] == 0 || map.dimensions[i] > longest_dimension || map.box[i] == 0 ||
        map.box[i] > largest_box || map.steps[i] == 0 || map.steps[i] > largest_step)
      return false;
  }
  return std::all_of(map.strides, map.strides + map.rank - 1,
                     [&](std::uint64_t stride) { return stride % unit == 0 && stride < longest_stride; });
}

}  // namespace

SOFTGPU_EXPORT(cuTensorMapEncodeTiled)
(CUtensorMap* out, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dimensions,
 const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* steps, CUtensorMapInterleave interleave,
 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (m.model().compute_major < first_with_maps) return CUDA_ERROR_NOT_SUPPORTED;
  const bool interleaved = interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
  const std::uint64_t unit = interleave == CU_TENSOR_MAP_INTERLEAVE_32B ? unit_32_bytes : stride_unit;
  if (out == nullptr || address == nullptr || dimensions == nullptr || box == nullptr || steps == nullptr ||
      rank < (interleaved ? 3u : 1u) || rank > most_dimensions || (rank > 1 && strides == nullptr) ||
      !is_multiple(out, 64) || !is_multiple(address, unit))
    return CUDA_ERROR_INVALID_VALUE;
  TensorMap map{};
  map.address = address;
  std::copy_n(dimensions, rank, map.dimensions);
  std::copy_n(strides, rank - 1, map.strides);
  std::copy_n(box, rank, map.box);
  for (cuuint32_t i = 0; i < rank; ++i)
    map.steps[i] = static_cast<std::uint8_t>(std::min(steps[i], largest_step + 1));
  map.type = static_cast<std::uint8_t>(type);
  map.rank = static_cast<std::uint8_t>(rank);
  map.interleave = static_cast<std::uint8_t>(interleave);
  map.swizzle = static_cast<std::uint8_t>(swizzle);
  map.promotion = static_cast<std::uint8_t>(promotion);
  map.fill = static_cast<std::uint8_t>(fill);
  if (!well(map, unit)) return CUDA_ERROR_INVALID_VALUE;
  *out = {};
  std::memcpy(out, &map, sizeof map);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuTensorMapReplaceAddress)(CUtensorMap* map, void* address) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (map == nullptr || address == nullptr || !is_multiple(address, stride_unit))
    return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &address, sizeof address);
  return CUDA_SUCCESS;
}
