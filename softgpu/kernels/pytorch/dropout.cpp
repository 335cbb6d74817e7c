// fused_dropout_kernel and fused_dropout_kernel_vec<type, type to compute in, index, dimensions, …, mask>
// (input, result, mask, elements, share that stays, random state): native/cuda/Dropout.cu.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

// cuda/detail/TensorInfo.cuh, in elements
template <class Index>
struct Tensor {
  static constexpr int most = 25;
  std::uint64_t address;
  Index sizes[most], strides[most];
  std::int32_t dimensions;
};
static_assert(sizeof(Tensor<std::uint32_t>) == 216 && sizeof(Tensor<std::uint64_t>) == 416);

// cuda/PhiloxCudaState.h. What follows the last member is whatever was there before, addresses too.
struct Philox {
  std::uint64_t seed, offset;  // while a graph is captured: where they are
  std::uint64_t offset_in_graph;
  bool captured;
};
static_assert(sizeof(Philox) == 32);

template <class Index>
bool touch_tensor(Footprint& out, const KernelLaunch& launch, std::uint32_t i, std::uint32_t bytes,
                  TouchKind kind, Hash& hash) {
  const auto tensor = parameter<Tensor<Index>>(launch, i);
  if (bytes == 0 || tensor.dimensions < 1 || tensor.dimensions > tensor.most) return false;
  std::vector<Dimension> dimensions;
  std::uint64_t elements = 1;
  for (int d = 0; d < tensor.dimensions; ++d) {
    dimensions.push_back({tensor.sizes[d], std::uint64_t{tensor.strides[d]} * bytes});
    hash.add(tensor.sizes[d]).add(tensor.strides[d]);
    elements *= tensor.sizes[d];
  }
  return elements == count(launch, 3) && touch_strided(out, tensor.address, dimensions, bytes, kind);
}

template <class Index>
bool dropout_of(const KernelLaunch& launch, std::uint32_t bytes, std::uint32_t computed,
                std::uint32_t mask_bytes, Footprint& out) {
  constexpr std::uint32_t tensor = sizeof(Tensor<Index>);
  if (!sizes_are(launch, {tensor, tensor, tensor, sizeof(Index), computed, sizeof(Philox)})) return false;
  const auto random = parameter<Philox>(launch, 5);
  Hash hash(hash_of(launch, 3, 5));
  hash.add(random.offset_in_graph);
  if (random.captured) {
    touch(out, random.seed, 8, TouchKind::read);
    touch(out, random.offset, 8, TouchKind::read);
  } else {
    hash.add(random.seed).add(random.offset);
  }
  if (!touch_tensor<Index>(out, launch, 0, bytes, TouchKind::read, hash) ||
      !touch_tensor<Index>(out, launch, 1, bytes, TouchKind::write, hash) ||
      !touch_tensor<Index>(out, launch, 2, mask_bytes, TouchKind::write, hash))
    return false;
  out.scalars = hash.value();
  return true;
}

}  // namespace

bool dropout(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() < 5) return false;
  const std::uint32_t bytes = bytes_of(given[0]), computed = bytes_of(given[1]),
                      mask_bytes = bytes_of(given.back());
  if (given[2] == "unsigned int") return dropout_of<std::uint32_t>(launch, bytes, computed, mask_bytes, out);
  if (given[2] == "unsigned long") return dropout_of<std::uint64_t>(launch, bytes, computed, mask_bytes, out);
  return false;
}

}  // namespace softgpu::pytorch
