// CatArrayBatchedCopy<bytes of an element, index, dimensions, inputs, inputs>(result, inputs, result's
// layout, dimension that they are put together along, its stride): native/cuda/Shape.cu.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint32_t most_dimensions = 4, most_inputs = 64;

// TensorSizeStride<unsigned int, 4>, in elements
struct Layout {
  std::uint32_t sizes[most_dimensions], strides[most_dimensions];
};

// CatArrInputTensorMetadata<T, unsigned int, 64, 64>
struct Inputs {
  std::uint64_t addresses[most_inputs];
  std::uint32_t offsets[most_inputs], sizes[most_inputs], elements[most_inputs];
  bool contiguous[most_inputs];
  Layout layouts[most_inputs];
};
static_assert(sizeof(Inputs) == 3392);

}  // namespace

// A block's second number is that of its input. All but the sizes along `along` are the result's.
bool concatenate(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 5 || given[1] != "unsigned int" || given[3] != "64" || given[4] != "64" ||
      !sizes_are(launch, {pointer, sizeof(Inputs), sizeof(Layout), 4, 4}))
    return false;
  const std::uint32_t bytes = opaque_bytes(given[0]), dimensions = number(given[2]).value_or(0);
  const auto along = parameter<std::uint32_t>(launch, 3), stride = parameter<std::uint32_t>(launch, 4);
  if (bytes == 0 || dimensions == 0 || dimensions > most_dimensions || along >= dimensions ||
      launch.grid[1] > most_inputs)
    return false;
  const auto inputs = parameter<Inputs>(launch, 1);
  const auto result = parameter<Layout>(launch, 2);
  Hash hash(bytes);
  hash.add(along).add(stride);
  for (std::uint32_t i = 0; i < launch.grid[1]; ++i) {
    std::vector<Dimension> from, to;
    std::uint64_t elements = 1;
    for (std::uint32_t d = dimensions; d-- > 0;) {
      const std::uint64_t size = d == along ? inputs.sizes[i] : result.sizes[d];
      const std::uint64_t apart = inputs.contiguous[i] ? elements : inputs.layouts[i].strides[d];
      from.push_back({size, apart * bytes});
      to.push_back({size, std::uint64_t{result.strides[d]} * bytes});
      hash.add(size).add(apart).add(result.strides[d]);
      elements *= size;
    }
    if (elements != inputs.elements[i]) return false;
    hash.add(inputs.offsets[i]);
    const std::uint64_t begin = std::uint64_t{inputs.offsets[i]} * stride * bytes;
    if (elements > 0 && (!touch_strided(out, inputs.addresses[i], from, bytes, TouchKind::read) ||
                         !touch_strided(out, address(launch, 0) + begin, to, bytes, TouchKind::write)))
      return false;
  }
  out.scalars = hash.value();
  return true;
}

}  // namespace softgpu::pytorch
