// multi_tensor_apply_kernel(tables, functor, op, scalars…): native/cuda/MultiTensorApply.cuh and
// native/cuda/ForeachFunctors.cuh.
#include <algorithm>
#include <map>

#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint64_t chunk_elements = 65536;
constexpr unsigned most_blocks = 320;

// TensorListMetadata<lists>
template <int lists, int tensors>
struct Tables {
  std::uint64_t addresses[lists][tensors];
  std::int64_t elements[tensors];
  std::uint8_t block_to_tensor[most_blocks];
  std::int32_t block_to_chunk[most_blocks];
  std::int32_t first_tensor;  // not read by these functors
};
static_assert(sizeof(Tables<1, 110>) == 3368);

// TensorListScalarListMetadata<float, lists>
template <int lists, int tensors>
struct TablesWithScalars {
  std::uint64_t addresses[lists][tensors];
  std::int64_t elements[tensors];
  float scalars[tensors];
  std::uint8_t block_to_tensor[most_blocks];
  std::int32_t block_to_chunk[most_blocks];
};

// A functor's <type, lists, lists that are read, list that is written>.
struct Functor {
  std::uint32_t bytes, lists, reads, writes;
};

std::optional<Functor> functor_of(std::string_view text) {
  const auto arguments = template_arguments(text);
  if (arguments.size() != 4) return std::nullopt;
  constexpr std::string_view space = "at::native::(anonymous namespace)::";
  std::string_view name = template_name(text);
  if (!name.starts_with(space)) return std::nullopt;
  name.remove_prefix(space.size());
  const auto known = {"BinaryOpScalarFunctor",  "BinaryOpScalarListFunctor", "BinaryOpListAlphaFunctor",
                      "UnaryOpFunctor",         "PointwiseOpScalarFunctor",  "PointwiseOpScalarListFunctor",
                      "TernaryOpScalarFunctor", "TernaryOpListFunctor"};
  if (std::find(known.begin(), known.end(), name) == known.end()) return std::nullopt;
  const auto lists = number(arguments[1]), reads = number(arguments[2]), writes = number(arguments[3]);
  const std::uint32_t bytes = bytes_of(arguments[0]);
  if (bytes == 0 || !lists || !reads || !writes || *reads > *lists || *writes >= *lists) return std::nullopt;
  return Functor{bytes, *lists, *reads, *writes};
}

// The chunks of a tensor that this launch works on: they follow one another.
struct Part {
  std::int64_t first, end;
};

template <class T>
std::optional<std::map<unsigned, Part>> parts_of(const T& tables, unsigned blocks, std::size_t tensors) {
  std::map<unsigned, Part> parts;
  if (blocks > most_blocks) return std::nullopt;
  for (unsigned block = 0; block < blocks; ++block) {
    const unsigned tensor = tables.block_to_tensor[block];
    const std::int64_t chunk = tables.block_to_chunk[block];
    if (tensor >= tensors || chunk < 0) return std::nullopt;
    const auto [part, fresh] = parts.try_emplace(tensor, Part{chunk, chunk});
    if (part->second.end++ != chunk) return std::nullopt;
  }
  return parts;
}

void add_scalar(Hash&, const void*, unsigned) {}
template <int lists, int tensors>
void add_scalar(Hash& hash, const TablesWithScalars<lists, tensors>* tables, unsigned tensor) {
  hash.add_bytes(&tables->scalars[tensor], sizeof tables->scalars[tensor]);
}

template <class T>
bool apply(const KernelLaunch& launch, const Functor& functor, Footprint& out) {
  if (launch.param_count < 3 || launch.param_sizes[0] != sizeof(T) || launch.param_sizes[1] != 1 ||
      launch.param_sizes[2] != 1)
    return false;
  const auto tables = parameter<T>(launch, 0);
  const auto parts = parts_of(tables, launch.grid[0], std::size(tables.elements));
  if (!parts) return false;
  Hash hash;
  for (std::uint32_t i = 3; i < launch.param_count; ++i)
    hash.add_bytes(launch.params[i], launch.param_sizes[i]);
  for (const auto& [tensor, part] : *parts) {
    const auto all = static_cast<std::uint64_t>(tables.elements[tensor]);
    const std::uint64_t first = static_cast<std::uint64_t>(part.first) * chunk_elements;
    const std::uint64_t end = std::min(all, static_cast<std::uint64_t>(part.end) * chunk_elements);
    if (first >= end) return false;
    hash.add(all).add(first).add(end);
    add_scalar(hash, &tables, tensor);
    const std::uint64_t bytes = (end - first) * functor.bytes;
    for (std::uint32_t list = 0; list < functor.reads; ++list)
      touch(out, tables.addresses[list][tensor] + first * functor.bytes, bytes, TouchKind::read);
    touch(out, tables.addresses[functor.writes][tensor] + first * functor.bytes, bytes, TouchKind::write);
  }
  out.scalars = hash.value();
  return true;
}

}  // namespace

bool foreach (const KernelLaunch& launch, Footprint & out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() < 2) return false;
  const auto functor = functor_of(arguments[1]);
  if (!functor) return false;
  const std::string_view tables = arguments[0];
  const auto is = [&](std::string_view name) {
    constexpr std::string_view space = "at::native::(anonymous namespace)::";
    return tables.starts_with(space) && tables.substr(space.size()) == name;
  };
  if (is("TensorListMetadata<1>") && functor->lists == 1) return apply<Tables<1, 110>>(launch, *functor, out);
  if (is("TensorListMetadata<2>") && functor->lists == 2) return apply<Tables<2, 64>>(launch, *functor, out);
  if (is("TensorListMetadata<3>") && functor->lists == 3) return apply<Tables<3, 48>>(launch, *functor, out);
  if (is("TensorListMetadata<4>") && functor->lists == 4) return apply<Tables<4, 36>>(launch, *functor, out);
  if (is("TensorListScalarListMetadata<float, 1>") && functor->lists == 1)
    return apply<TablesWithScalars<1, 96>>(launch, *functor, out);
  if (is("TensorListScalarListMetadata<float, 2>") && functor->lists == 2)
    return apply<TablesWithScalars<2, 64>>(launch, *functor, out);
  if (is("TensorListScalarListMetadata<float, 3>") && functor->lists == 3)
    return apply<TablesWithScalars<3, 48>>(launch, *functor, out);
  return false;
}

}  // namespace softgpu::pytorch
