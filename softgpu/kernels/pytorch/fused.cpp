// Optimizers in one kernel, and what a scaled loss needs besides: native/cuda/fused_adam_utils.cuh and
// native/cuda/AmpKernels.cu.
#include "softgpu/kernels/pytorch/foreach.h"

namespace softgpu::pytorch {

// FusedAdamMathFunctor<type, lists, mode, with the largest so far>: (tables, functor, learning rate in
// memory, learning rate, two decays, weight decay, epsilon, maximize, scale of gradients, whether one is not
// finite). Lists: weights, gradients, and two or three moments. Gradients change where they are scaled.
bool fused_adam(const KernelLaunch& launch, std::string_view functor, const Tables& tables,
                const std::vector<Part>& parts, Footprint& out) {
  constexpr std::uint32_t gradients = 1, rate = 2, scale = 9, not_finite = 10;
  const auto given = template_arguments(functor);
  if (template_name(functor) != "at::native::(anonymous namespace)::FusedAdamMathFunctor" ||
      given.size() != 4 || launch.param_count != 11 || tables.lists() != number(given[1]) ||
      tables.more_bytes() != 8)
    return false;
  constexpr std::uint32_t sizes[] = {1, pointer, 8, 8, 8, 8, 8, 1, pointer, pointer};
  for (std::uint32_t i = 1; i < launch.param_count; ++i)
    if (launch.param_sizes[i] != sizes[i - 1]) return false;
  const std::uint32_t element = bytes_of(given[0]);
  if (element == 0) return false;
  for (const std::uint32_t i : {rate, scale, not_finite})
    touch_if_there(out, address(launch, i), sizeof(float), TouchKind::read);
  Hash hash(hash_of(launch, rate + 1, scale));
  hash.add(address(launch, rate) != 0).add(address(launch, scale) != 0);
  for (const Part& part : parts) {
    hash.add(part.all).add(part.begins).add(part.elements);
    std::uint64_t step;
    std::memcpy(&step, tables.more(part.tensor), sizeof step);
    touch(out, step, sizeof(float), TouchKind::read);
    for (std::uint32_t list = 0; list < tables.lists(); ++list) {
      const bool only_read = list == gradients && address(launch, scale) == 0;
      touch(out, tables.address(list, part.tensor) + part.begins * element, part.elements * element,
            only_read ? TouchKind::read : TouchKind::read_write);
    }
  }
  out.scalars = hash.value();
  return true;
}

// (scale, steps since it grew, whether a number was not finite, two factors, steps to the next growth)
bool update_scale(const KernelLaunch& launch, Footprint& out) {
  if (!sizes_are(launch, {pointer, pointer, pointer, 8, 8, 4})) return false;
  touch(out, address(launch, 0), sizeof(float), TouchKind::read_write);
  touch(out, address(launch, 1), sizeof(std::int32_t), TouchKind::read_write);
  touch(out, address(launch, 2), sizeof(float), TouchKind::read);
  out.scalars = hash_of(launch, 3, 6);
  return true;
}

}  // namespace softgpu::pytorch
