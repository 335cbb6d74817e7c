// Kernels that work on rows, as language models have them: layer norm, softmax, and gathering rows by index.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

// All blocks are in a row, one each.
bool block_per_row(const KernelLaunch& launch) {
  return launch.grid[1] == 1 && launch.grid[2] == 1;
}

// <type, type of the moments, RMS norm>: false in the end.
bool norm_types(const KernelLaunch& launch, std::size_t arguments, std::uint32_t& bytes,
                std::uint32_t& moments) {
  const auto given = template_arguments(launch.name);
  if (given.size() != arguments || given.back() != "false") return false;
  bytes = bytes_of(given[0]);
  moments = bytes_of(given[1]);
  return bytes != 0 && moments != 0;
}

// cunn_SoftMax*<…, input's type, type in between, result's type, epilogue, …>, the first of these at `first`.
bool softmax_types(const KernelLaunch& launch, std::size_t first, std::size_t arguments, std::uint32_t& in,
                   std::uint32_t& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != arguments || !block_per_row(launch)) return false;
  in = bytes_of(given[first]);
  out = bytes_of(given[first + 2]);
  return in != 0 && out != 0;
}

// (result, input, columns)
bool softmax_rows(const KernelLaunch& launch, std::uint32_t in_bytes, std::uint32_t out_bytes,
                  Footprint& out) {
  const std::uint64_t columns = count(launch, 2), elements = launch.grid[0] * columns;
  touch(out, address(launch, 1), elements * in_bytes, TouchKind::read);
  touch(out, address(launch, 0), elements * out_bytes, TouchKind::write);
  out.scalars = Hash(columns).value();
  return true;
}

}  // namespace

// native/cuda/layer_norm_kernel.cu: (int columns, epsilon, input, gamma, beta, mean, 1 / deviation, result)
bool layer_norm_forward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t bytes, moments;
  if (!norm_types(launch, 3, bytes, moments) || !block_per_row(launch) ||
      !sizes_are(launch, {4, moments, pointer, pointer, pointer, pointer, pointer, pointer}))
    return false;
  const std::uint64_t columns = count(launch, 0), rows = launch.grid[0];
  touch(out, address(launch, 2), rows * columns * bytes, TouchKind::read);
  touch_if_there(out, address(launch, 3), columns * bytes, TouchKind::read);
  touch_if_there(out, address(launch, 4), columns * bytes, TouchKind::read);
  touch(out, address(launch, 5), rows * moments, TouchKind::write);
  touch(out, address(launch, 6), rows * moments, TouchKind::write);
  touch(out, address(launch, 7), rows * columns * bytes, TouchKind::write);
  Hash hash(columns);
  hash.add_bytes(launch.params[1], moments).add(address(launch, 3) != 0).add(address(launch, 4) != 0);
  out.scalars = hash.value();
  return true;
}

// (gradient, input, mean, 1 / deviation, gamma, input's gradient, int columns)
bool layer_norm_backward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t bytes, moments;
  if (!norm_types(launch, 3, bytes, moments) || !block_per_row(launch) ||
      !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, pointer, 4}))
    return false;
  const std::uint64_t columns = count(launch, 6), rows = launch.grid[0];
  touch(out, address(launch, 0), rows * columns * bytes, TouchKind::read);
  touch(out, address(launch, 1), rows * columns * bytes, TouchKind::read);
  touch(out, address(launch, 2), rows * moments, TouchKind::read);
  touch(out, address(launch, 3), rows * moments, TouchKind::read);
  touch_if_there(out, address(launch, 4), columns * bytes, TouchKind::read);
  touch(out, address(launch, 5), rows * columns * bytes, TouchKind::write);
  out.scalars = Hash(columns).add(address(launch, 4) != 0).value();
  return true;
}

// <…, partial sums, whole blocks, RMS norm>(rows, columns, gradient, input, mean, 1 / deviation, gamma's
// gradient, beta's)
bool layer_norm_weights(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t bytes, moments;
  if (!norm_types(launch, 8, bytes, moments) || !block_per_row(launch) ||
      template_arguments(launch.name)[5] != "false" ||
      !sizes_are(launch, {8, 8, pointer, pointer, pointer, pointer, pointer, pointer}))
    return false;
  const std::uint64_t rows = count(launch, 0), columns = count(launch, 1);
  touch(out, address(launch, 2), rows * columns * bytes, TouchKind::read);
  touch(out, address(launch, 3), rows * columns * bytes, TouchKind::read);
  touch(out, address(launch, 4), rows * moments, TouchKind::read);
  touch(out, address(launch, 5), rows * moments, TouchKind::read);
  touch_if_there(out, address(launch, 6), columns * bytes, TouchKind::write);
  touch_if_there(out, address(launch, 7), columns * bytes, TouchKind::write);
  out.scalars = Hash(rows).add(columns).add(address(launch, 6) != 0).add(address(launch, 7) != 0).value();
  return true;
}

// native/cuda/SoftMax.cu, rows of more than 1,024: (result, input, int columns)
bool long_softmax_forward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  return softmax_types(launch, 1, 5, in_bytes, out_bytes) && sizes_are(launch, {pointer, pointer, 4}) &&
         softmax_rows(launch, in_bytes, out_bytes, out);
}

// The row held in registers: cunn_SoftMaxForwardReg<…, type of an index, registers>, (…, size_t columns)
bool register_softmax_forward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  return softmax_types(launch, 0, 6, in_bytes, out_bytes) && sizes_are(launch, {pointer, pointer, 8}) &&
         softmax_rows(launch, in_bytes, out_bytes, out);
}

// In shared memory: cunn_SoftMaxForwardSmem<at once, …, type of an index>
bool shared_softmax_forward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  return softmax_types(launch, 1, 6, in_bytes, out_bytes) && sizes_are(launch, {pointer, pointer, 8}) &&
         softmax_rows(launch, in_bytes, out_bytes, out);
}

// Whether the row is held in shared memory or not: (input's gradient, result, gradient, size_t columns)
bool long_softmax_backward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  if (!softmax_types(launch, 1, 5, in_bytes, out_bytes) || !sizes_are(launch, {pointer, pointer, pointer, 8}))
    return false;
  const std::uint64_t columns = count(launch, 3), elements = launch.grid[0] * columns;
  touch(out, address(launch, 1), elements * out_bytes, TouchKind::read);
  touch(out, address(launch, 2), elements * out_bytes, TouchKind::read);
  touch(out, address(launch, 0), elements * in_bytes, TouchKind::write);
  out.scalars = Hash(columns).value();
  return true;
}

// native/cuda/IndexKernelUtils.cu, <alignment, index>: (result, table, indices, int indices, bytes of a row,
// the table's rows, bytes from row to row of the table and of the result, negative indices). Which rows are
// read lies in device memory: all of them.
bool gather_rows(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  const std::uint32_t index = given.size() == 2 ? bytes_of(given[1]) : 0;
  if (index == 0 || !sizes_are(launch, {pointer, pointer, pointer, 4, 8, 8, 8, 8, 1})) return false;
  const std::uint64_t gathered = count(launch, 3), bytes = count(launch, 4);
  const std::uint64_t table_rows = count(launch, 5);
  if (launch.grid[0] != gathered) return false;
  touch(out, address(launch, 2), gathered * index, TouchKind::read);
  if (!touch_strided(out, address(launch, 1), {{table_rows, count(launch, 6)}}, bytes, TouchKind::read) ||
      !touch_strided(out, address(launch, 0), {{gathered, count(launch, 7)}}, bytes, TouchKind::write))
    return false;
  out.scalars = hash_of(launch, 4, 9, gathered);
  return true;
}

}  // namespace softgpu::pytorch
