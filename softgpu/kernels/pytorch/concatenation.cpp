// CatArrayBatchedCopy<bytes of an element, index, dimensions, inputs, inputs with strides>(result, inputs,
// result's layout, dimension that they are put together along, its stride), and …_contig and
// …_alignedK_contig for many inputs without strides of their own: native/cuda/Shape.cu.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint32_t most_dimensions = 4;

// TensorSizeStride<unsigned int, 4>, in elements
struct Layout {
  std::uint32_t sizes[most_dimensions], strides[most_dimensions];
};

// CatArrInputTensorMetadata<T, unsigned int, inputs, layouts>
template <int inputs, int with_strides>
struct Inputs {
  static constexpr std::uint32_t most = inputs;
  std::uint64_t addresses[inputs];
  std::uint32_t offsets[inputs], sizes[inputs], elements[inputs];
  bool contiguous[inputs];
  Layout layouts[with_strides];

  bool has_strides(std::uint32_t i) const { return inputs == with_strides && !contiguous[i]; }
};
static_assert(sizeof(Inputs<64, 64>) == 3392 && sizeof(Inputs<128, 1>) == 2720);

// A block's second number is that of its input. All but the sizes along `along` are the result's.
template <class All>
bool copy_all(const KernelLaunch& launch, std::uint32_t bytes, std::uint32_t dimensions, Footprint& out) {
  if (!sizes_are(launch, {pointer, sizeof(All), sizeof(Layout), 4, 4})) return false;
  const auto along = parameter<std::uint32_t>(launch, 3), stride = parameter<std::uint32_t>(launch, 4);
  if (bytes == 0 || dimensions == 0 || dimensions > most_dimensions || along >= dimensions ||
      launch.grid[1] > All::most)
    return false;
  const auto inputs = parameter<All>(launch, 1);
  const auto result = parameter<Layout>(launch, 2);
  Hash hash(bytes);
  hash.add(along).add(stride);
  for (std::uint32_t i = 0; i < launch.grid[1]; ++i) {
    std::vector<Dimension> from, to;
    std::uint64_t elements = 1;
    for (std::uint32_t d = dimensions; d-- > 0;) {
      const std::uint64_t size = d == along ? inputs.sizes[i] : result.sizes[d];
      const std::uint64_t apart = inputs.has_strides(i) ? inputs.layouts[i].strides[d] : elements;
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

}  // namespace

bool concatenate(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() < 5 || given[1] != "unsigned int") return false;
  const std::uint32_t bytes = opaque_bytes(given[0]), dimensions = number(given[2]).value_or(0);
  if (given[3] == "64" && given[4] == "64") return copy_all<Inputs<64, 64>>(launch, bytes, dimensions, out);
  if (given[3] == "128" && given[4] == "1") return copy_all<Inputs<128, 1>>(launch, bytes, dimensions, out);
  return false;
}

}  // namespace softgpu::pytorch
