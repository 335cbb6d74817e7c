// Norms of lists of tensors: native/cuda/ForeachReduceOp.cu. A sum for each chunk, then one for each tensor.
#include "softgpu/kernels/pytorch/foreach.h"

namespace softgpu::pytorch {
namespace {

// Up to 2.11 each tensor has room for as many sums as the longest has chunks.
bool norms_in_rows(const KernelLaunch& launch, const Tables& tables, const std::vector<Part>& parts,
                   std::uint32_t sum, Footprint& out) {
  const std::uint64_t row = count(launch, 3);
  for (const Part& part : parts) {
    if (part.end > row) return false;
    const std::uint64_t first = (tables.first_tensor() + part.tensor) * row + part.first;
    touch(out, address(launch, 2) + first * sum, (part.end - part.first) * sum, TouchKind::write);
  }
  return true;
}

// Later a table in device memory says where a tensor's sums begin. They follow one another, so a call's first
// launch knows where they lie. Behind it nobody knows: the first sum stands for all, changed by each launch.
void norms_by_table(const KernelLaunch& launch, const Tables& tables, const std::vector<Part>& parts,
                    std::uint32_t sum, Footprint& out) {
  const std::uint64_t first = tables.first_tensor() + parts.front().tensor;
  const std::uint64_t tensors = parts.back().tensor - parts.front().tensor + 1;
  touch(out, address(launch, 3) + first * 8, tensors * 8, TouchKind::read);
  if (first == 0 && parts.front().first == 0) {
    touch(out, address(launch, 2), std::uint64_t{launch.grid[0]} * sum, TouchKind::write);
  } else {
    touch(out, address(launch, 2), sum, TouchKind::read_write);
  }
}

}  // namespace

// LpNormFunctor<type, norm, type of the results, …>: (tables, functor, sums, sums in a row) or (tables,
// functor, sums, where they begin)
bool list_norms(const KernelLaunch& launch, std::string_view functor, const Tables& tables,
                const std::vector<Part>& parts, Footprint& out) {
  const auto given = template_arguments(functor);
  if (template_name(functor) != "at::native::LpNormFunctor" || given.size() != 6 || tables.lists() != 1 ||
      launch.param_count != 4 || launch.param_sizes[1] != 1 || launch.param_sizes[2] != pointer ||
      parts.empty())
    return false;
  const std::uint32_t element = bytes_of(given[0]), sum = bytes_to_compute(given[2]);
  if (element == 0 || sum == 0) return false;
  Hash hash(launch.grid[0]);
  for (const Part& part : parts) {
    hash.add(part.all).add(part.first).add(part.end);
    touch(out, tables.address(0, part.tensor) + part.begins * element, part.elements * element,
          TouchKind::read);
  }
  if (launch.param_sizes[3] == 4) {
    if (!norms_in_rows(launch, tables, parts, sum, out)) return false;
  } else if (launch.param_sizes[3] == pointer) {
    norms_by_table(launch, tables, parts, sum, out);
  } else {
    return false;
  }
  out.scalars = hash.value();
  return true;
}

// lpnorm_cleanup<type, norm, type of the results, with the root, type of the sums>(sums, results, sums in a
// row), or (sums, results, where they begin, first tensor)
bool list_norm_results(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 5) return false;
  const std::uint64_t result = bytes_of(given[2]), sum = bytes_of(given[4]), tensors = launch.grid[0];
  // TensorListAddresses; how many fit in differs from version to version.
  if (result == 0 || sum == 0 || launch.param_count < 3 || tensors * 8 > launch.param_sizes[1]) return false;
  if (sizes_are(launch, {pointer, launch.param_sizes[1], 4})) {
    touch(out, address(launch, 0), tensors * count(launch, 2) * sum, TouchKind::read);
  } else if (sizes_are(launch, {pointer, launch.param_sizes[1], pointer, 4})) {
    touch(out, address(launch, 2) + count(launch, 3) * 8, tensors * 8, TouchKind::read);
    touch(out, address(launch, 0), sum, TouchKind::read);  // see norms_by_table
  } else {
    return false;
  }
  for (std::uint64_t i = 0; i < tensors; ++i) {
    std::uint64_t at;
    std::memcpy(&at, static_cast<const std::byte*>(launch.params[1]) + i * sizeof at, sizeof at);
    touch(out, at, result, TouchKind::write);
  }
  out.scalars = Hash(tensors).add(count(launch, launch.param_count - 1)).value();
  return true;
}

}  // namespace softgpu::pytorch
