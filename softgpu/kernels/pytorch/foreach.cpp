// multi_tensor_apply_kernel(tables, functor, op, scalars…): native/cuda/ForeachFunctors.cuh.
#include "softgpu/kernels/pytorch/foreach.h"

#include <algorithm>

namespace softgpu::pytorch {
namespace {

// A functor's <type, lists, lists that are read, list that is written>.
struct Functor {
  std::uint32_t bytes, lists, reads, writes;
  bool scalar_in_memory;
};

std::optional<Functor> functor_of(std::string_view text) {
  const auto arguments = template_arguments(text);
  if (arguments.size() != 4) return std::nullopt;
  constexpr std::string_view space = "at::native::(anonymous namespace)::";
  std::string_view name = template_name(text);
  if (!name.starts_with(space)) return std::nullopt;
  name.remove_prefix(space.size());
  const auto known = {"BinaryOpScalarFunctor",
                      "BinaryOpScalarListFunctor",
                      "BinaryOpListAlphaFunctor",
                      "BinaryOpScalarTensorFunctor",
                      "UnaryOpFunctor",
                      "PointwiseOpScalarFunctor",
                      "PointwiseOpScalarListFunctor",
                      "TernaryOpScalarFunctor",
                      "TernaryOpListFunctor",
                      "TernaryOpScalarListFunctor"};
  if (std::find(known.begin(), known.end(), name) == known.end()) return std::nullopt;
  const auto lists = number(arguments[1]), reads = number(arguments[2]), writes = number(arguments[3]);
  const std::uint32_t bytes = bytes_of(arguments[0]);
  if (bytes == 0 || !lists || !reads || !writes || *reads > *lists || *writes >= *lists) return std::nullopt;
  return Functor{bytes, *lists, *reads, *writes, name == "BinaryOpScalarTensorFunctor"};
}

// native/cuda/AmpKernels.cu: a lambda that holds where to say that a number was not finite, and where the
// factor is.
bool unscales(std::string_view op) {
  return op.starts_with("at::native::_amp_foreach_non_finite_check_and_unscale_cuda_(");
}

bool touch_of_op(const KernelLaunch& launch, std::string_view op, Footprint& out) {
  struct Unscale {
    std::uint64_t found, factor, unset;
  };
  if (launch.param_sizes[2] == 1) return true;
  if (!unscales(op) || launch.param_sizes[2] != sizeof(Unscale)) return false;
  const auto held = parameter<Unscale>(launch, 2);
  touch(out, held.factor, sizeof(float), TouchKind::read);
  touch(out, held.found, sizeof(float), TouchKind::read_write);
  return true;
}

bool elementwise(const KernelLaunch& launch, const std::vector<std::string_view>& arguments,
                 const Functor& functor, const Tables& tables, const std::vector<Part>& parts,
                 Footprint& out) {
  if (functor.lists != tables.lists() || launch.param_count < 3 || launch.param_sizes[1] != 1 ||
      !touch_of_op(launch, arguments.size() > 2 ? arguments[2] : std::string_view(), out))
    return false;
  std::uint32_t scalars = 3;
  if (functor.scalar_in_memory) {
    if (launch.param_count < 4 || launch.param_sizes[3] != pointer) return false;
    touch(out, address(launch, scalars++), functor.bytes, TouchKind::read);
  }
  Hash hash;
  for (std::uint32_t i = scalars; i < launch.param_count; ++i)
    hash.add_bytes(launch.params[i], launch.param_sizes[i]);
  for (const Part& part : parts) {
    hash.add(part.all).add(part.begins).add(part.begins + part.elements);
    hash.add_bytes(tables.more(part.tensor), tables.more_bytes());
    const std::uint64_t offset = part.begins * functor.bytes, bytes = part.elements * functor.bytes;
    for (std::uint32_t list = 0; list < functor.reads; ++list)
      touch(out, tables.address(list, part.tensor) + offset, bytes, TouchKind::read);
    touch(out, tables.address(functor.writes, part.tensor) + offset, bytes, TouchKind::write);
  }
  out.scalars = hash.value();
  return true;
}

}  // namespace

bool foreach (const KernelLaunch& launch, Footprint & out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() < 2) return false;
  const auto tables = Tables::of(launch, arguments[0]);
  const auto parts = tables ? tables->parts(launch.grid[0]) : std::nullopt;
  if (!parts) return false;
  if (const auto functor = functor_of(arguments[1]))
    return elementwise(launch, arguments, *functor, *tables, *parts, out);
  return list_norms(launch, arguments[1], *tables, *parts, out) ||
         fused_adam(launch, arguments[1], *tables, *parts, out);
}

}  // namespace softgpu::pytorch
