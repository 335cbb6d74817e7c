// The gradient of a table that rows were gathered from: native/cuda/Embedding.cu for up to 3,072 indices,
// native/cuda/EmbeddingBackwardKernel.cu for more. There indices are sorted, those of one row make a segment,
// and each segment is added up in parts of ten.
//
// How many segments and parts there are is known on the device alone. Arrays have room for the most that
// there can be, and what counts as written is that room, as far as a launch tells it: content behind the last
// segment is alike in all runs then, and reading it too changes nothing. Where no parameter tells an array's
// room, its first element stands for all, which one launch wrote.
//
// The table's gradient is a sum onto zeros in rows that lie in device memory. How many rows it has no
// parameter tells, so its first row stands for all: whatever reads the gradient depends on what this kernel
// read.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

constexpr std::uint64_t number_bytes = 8;

// <type of an index>
std::uint64_t index_of(const KernelLaunch& launch) {
  const auto given = template_arguments(launch.name);
  return given.size() == 1 ? bytes_of(given[0]) : 0;
}

// <type, type of an index>
bool types(const KernelLaunch& launch, std::uint64_t& element, std::uint64_t& sum, std::uint64_t& index) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 2) return false;
  element = bytes_of(given[0]);
  sum = bytes_to_compute(given[0]);
  index = bytes_of(given[1]);
  return element != 0 && index != 0;
}

// There are at least so many things for which blocks have so many threads each.
std::uint64_t at_least(const KernelLaunch& launch, std::uint64_t threads) {
  return std::uint64_t{launch.grid[0] - 1} * launch.block[0] / threads + 1;
}

}  // namespace

// <type, type of a sum, type of an index>(indices, gradient, table's gradient, int indices, width, row that
// has none)
bool few_rows_gradient(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const std::uint64_t element = given.size() == 3 ? bytes_of(given[0]) : 0;
  const std::uint64_t index = given.size() == 3 ? bytes_of(given[2]) : 0;
  if (element == 0 || index == 0 || !sizes_are(launch, {pointer, pointer, pointer, 4, 8, 4})) return false;
  const std::uint64_t indices = count(launch, 3), width = count(launch, 4);
  touch(out, address(launch, 0), indices * index, TouchKind::read);
  touch(out, address(launch, 1), indices * width * element, TouchKind::read);
  touch(out, address(launch, 2), width * element, TouchKind::read_write);
  out.scalars = hash_of(launch, 3, 6);
  return true;
}

// krn_partials_per_segment(parts of each segment, segments' begins, segments, indices)
bool segment_parts(const KernelLaunch& launch, Footprint& out) {
  const std::uint64_t index = index_of(launch);
  if (index == 0 || !sizes_are(launch, {pointer, pointer, pointer, 8})) return false;
  const std::uint64_t segments = at_least(launch, 1);
  touch(out, address(launch, 1), count(launch, 3) * index, TouchKind::read);
  touch(out, address(launch, 2), number_bytes, TouchKind::read);
  touch(out, address(launch, 0), segments * index, TouchKind::write);
  out.scalars = hash_of(launch, 3, 4, segments);
  return true;
}

// krn_partial_segment_offset(parts' begins, parts of each segment, number of its first part, segments'
// begins, segments)
bool segment_part_offsets(const KernelLaunch& launch, Footprint& out) {
  const std::uint64_t index = index_of(launch);
  if (index == 0 || !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer})) return false;
  const std::uint64_t segments = at_least(launch, 1);
  for (std::uint32_t i = 1; i < 4; ++i) touch(out, address(launch, i), segments * index, TouchKind::read);
  touch(out, address(launch, 4), number_bytes, TouchKind::read);
  touch(out, address(launch, 0), segments * index, TouchKind::write);
  out.scalars = Hash(segments).value();
  return true;
}

// compute_num_of_partial_segments(parts of each segment, number of its first part, segments, parts): the last
// segment's.
bool segment_part_count(const KernelLaunch& launch, Footprint& out) {
  const std::uint64_t index = index_of(launch);
  if (index == 0 || !sizes_are(launch, {pointer, pointer, pointer, pointer})) return false;
  touch(out, address(launch, 0), index, TouchKind::read);
  touch(out, address(launch, 1), index, TouchKind::read);
  touch(out, address(launch, 2), number_bytes, TouchKind::read);
  touch(out, address(launch, 3), number_bytes, TouchKind::write);
  out.scalars = 0;
  return true;
}

// compute_grad_weight(places of the sorted indices, gradient, counts, indices, width, parts' begins, parts,
// sums of parts, width in threads)
bool segment_part_sums(const KernelLaunch& launch, Footprint& out) {
  std::uint64_t element, sum, index;
  if (!types(launch, element, sum, index) ||
      !sizes_are(launch, {pointer, pointer, pointer, 8, 8, pointer, pointer, pointer, 8}))
    return false;
  const std::uint64_t indices = count(launch, 3), width = count(launch, 4), threads = count(launch, 8);
  if (threads < width || threads == 0) return false;
  touch(out, address(launch, 0), indices * index, TouchKind::read);
  touch(out, address(launch, 1), indices * width * element, TouchKind::read);
  touch_if_there(out, address(launch, 2), indices * index, TouchKind::read);
  touch(out, address(launch, 5), index, TouchKind::read);
  touch(out, address(launch, 6), number_bytes, TouchKind::read);
  touch(out, address(launch, 7), at_least(launch, threads) * width * sum, TouchKind::write);
  out.scalars = hash_of(launch, 3, 5, address(launch, 2) != 0);
  return true;
}

// sum_and_scatter(sorted indices, table's gradient, width, segments' begins, segments, sums of parts, number
// of a segment's first part, parts, row that has none, width in threads)
bool segment_sums(const KernelLaunch& launch, Footprint& out) {
  std::uint64_t element, sum, index;
  if (!types(launch, element, sum, index) ||
      !sizes_are(launch, {pointer, pointer, 8, pointer, pointer, pointer, pointer, pointer, 8, 8}))
    return false;
  const std::uint64_t width = count(launch, 2), threads = count(launch, 9);
  if (threads < width || threads == 0) return false;
  // A part for each segment is the least.
  const std::uint64_t segments = at_least(launch, threads);
  for (const std::uint32_t i : {0, 3, 6}) touch(out, address(launch, i), segments * index, TouchKind::read);
  for (const std::uint32_t i : {4, 7}) touch(out, address(launch, i), number_bytes, TouchKind::read);
  touch(out, address(launch, 5), segments * width * sum, TouchKind::read);
  touch(out, address(launch, 1), width * element, TouchKind::read_write);
  out.scalars = hash_of(launch, 8, 9, Hash(width).add(segments).value());
  return true;
}

}  // namespace softgpu::pytorch
