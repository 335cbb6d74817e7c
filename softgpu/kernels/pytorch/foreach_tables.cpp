#include <algorithm>

#include "softgpu/kernels/pytorch/foreach.h"

namespace softgpu::pytorch {
namespace {

// depth_to_max_tensors, depth_to_max_tensors_scalarlist, depth_to_max_blocks, block_index_t
struct Sizes {
  std::uint32_t tensors[5], with_scalars[5], blocks, index_bytes;
};
constexpr Sizes of_4_kib{{110, 64, 48, 36, 30}, {96, 64, 48, 36, 30}, 320, 1},
    of_32_kib{{770, 448, 336, 252, 210}, {672, 448, 336, 252, 210}, 2240, 2};

struct Kind {
  std::string_view name;  // before the number of lists
  bool with_scalars;
  std::uint32_t more_bytes;
  bool first_tensor;
};
constexpr Kind kinds[] = {{"TensorListMetadata<", false, 0, true},
                          {"TensorListScalarListMetadata<float, ", true, 4, false},
                          {"FusedOptimizerTensorListMetadata<", false, 8, true}};

}  // namespace

std::optional<Tables> Tables::of(const KernelLaunch& launch, std::string_view type) {
  constexpr std::string_view space = "at::native::(anonymous namespace)::";
  if (launch.param_count == 0 || !type.starts_with(space) || !type.ends_with('>')) return std::nullopt;
  type = type.substr(space.size(), type.size() - space.size() - 1);
  for (const Kind& kind : kinds) {
    if (!type.starts_with(kind.name)) continue;
    const std::uint32_t lists = number(type.substr(kind.name.size())).value_or(0);
    if (lists == 0 || lists > std::size(of_4_kib.tensors)) return std::nullopt;
    for (const Sizes& sizes : {of_4_kib, of_32_kib}) {
      const auto& tensors = kind.with_scalars ? sizes.with_scalars : sizes.tensors;
      const TableLayout layout{lists,        tensors[lists - 1], kind.more_bytes,
                               sizes.blocks, sizes.index_bytes,  kind.first_tensor};
      if (layout.bytes() == launch.param_sizes[0]) return Tables(launch.params[0], layout);
    }
  }
  return std::nullopt;
}

unsigned Tables::tensor_of(unsigned block) const {
  const std::uint32_t at = layout_.block_tensors_at() + block * layout_.index_bytes;
  return layout_.index_bytes == 1 ? get<std::uint8_t>(at) : get<std::uint16_t>(at);
}

std::optional<std::vector<Part>> Tables::parts(unsigned blocks) const {
  std::map<unsigned, Part> found;
  if (blocks > layout_.blocks) return std::nullopt;
  for (unsigned block = 0; block < blocks; ++block) {
    const unsigned tensor = tensor_of(block);
    const auto chunk = get<std::int32_t>(layout_.block_chunks_at() + block * 4);
    if (tensor >= layout_.tensors || chunk < 0) return std::nullopt;
    const auto number = static_cast<std::uint64_t>(chunk);
    const auto [part, fresh] = found.try_emplace(tensor, Part{tensor, number, number, 0, 0, 0});
    if (part->second.end++ != number) return std::nullopt;
  }
  std::vector<Part> parts;
  for (auto& [tensor, part] : found) {
    part.all = get<std::uint64_t>(layout_.sizes_at() + tensor * 8);
    part.begins = part.first * chunk_elements;
    const std::uint64_t ends = std::min(part.all, part.end * chunk_elements);
    if (part.begins >= ends) return std::nullopt;
    part.elements = ends - part.begins;
    parts.push_back(part);
  }
  return parts;
}

}  // namespace softgpu::pytorch
