// Kernels of layers and losses, each with its operands as parameters.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

// softmax_warp_*<in, out, accumulated, log2 of elements, of logarithms, masked>, in 2.15 with threads of a
// warp
bool softmax_types(const KernelLaunch& launch, std::uint32_t& in, std::uint32_t& out) {
  const auto arguments = template_arguments(launch.name);
  if ((arguments.size() != 6 && arguments.size() != 7) || arguments[5] != "false") return false;
  in = bytes_of(arguments[0]);
  out = bytes_of(arguments[1]);
  return in != 0 && out != 0;
}

// How windows along one dimension lie: every element is in one.
struct Windows {
  std::uint64_t size, pooled;
  std::int64_t kernel, stride, pad, dilation;
  bool cover() const {
    const auto last = (static_cast<std::int64_t>(pooled) - 1) * stride - pad + kernel;
    return dilation == 1 && stride <= kernel && pad < kernel && last >= static_cast<std::int64_t>(size);
  }
};

// Parameters from `at` on: the pooled sizes, then kernel, stride, pad and dilation, of both dimensions each.
bool windows_cover(const KernelLaunch& launch, std::uint32_t at, std::uint64_t height, std::uint64_t width) {
  const std::uint64_t sizes[] = {height, width};
  for (std::uint32_t i = 0; i < 2; ++i) {
    const auto value = [&](std::uint32_t pair) { return parameter<std::int32_t>(launch, at + 2 * pair + i); };
    const Windows windows{sizes[i], static_cast<std::uint64_t>(value(0)), value(1), value(2), value(3),
                          value(4)};
    if (!windows.cover()) return false;
  }
  return true;
}

}  // namespace

// native/cuda/PersistentSoftmax.cuh: (result, input, rows, stride, elements, mask, chunk,
// is_transformer_mask)
bool softmax_forward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  if (!softmax_types(launch, in_bytes, out_bytes) ||
      !sizes_are(launch, {pointer, pointer, 4, 4, 4, pointer, 4, 1}) || count(launch, 3) != count(launch, 4))
    return false;
  const std::uint64_t elements = count(launch, 2) * count(launch, 4);
  touch(out, address(launch, 1), elements * in_bytes, TouchKind::read);
  touch(out, address(launch, 0), elements * out_bytes, TouchKind::write);
  out.scalars = hash_of(launch, 2, 5);
  return true;
}

// (input's gradient, gradient, result, rows, stride, elements, mask)
bool softmax_backward(const KernelLaunch& launch, Footprint& out) {
  std::uint32_t in_bytes, out_bytes;
  if (!softmax_types(launch, in_bytes, out_bytes) ||
      !sizes_are(launch, {pointer, pointer, pointer, 4, 4, 4, pointer}) ||
      count(launch, 4) != count(launch, 5))
    return false;
  const std::uint64_t elements = count(launch, 3) * count(launch, 5);
  touch(out, address(launch, 1), elements * in_bytes, TouchKind::read);
  touch(out, address(launch, 2), elements * in_bytes, TouchKind::read);
  touch(out, address(launch, 0), elements * out_bytes, TouchKind::write);
  out.scalars = hash_of(launch, 3, 6);
  return true;
}

// native/cuda/DilatedMaxPool2d.cu: (results, input, channels, height, width, pooled height and width, kernel,
// stride, pad and dilation of both, result, places)
bool max_pool_forward(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  const std::uint32_t bytes = arguments.empty() ? 0 : bytes_of(arguments[0]);
  if (bytes == 0 || !sizes_are(launch, {4, pointer, 8, 8, 8, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, pointer, pointer}))
    return false;
  const std::uint64_t results = count(launch, 0), height = count(launch, 3), width = count(launch, 4);
  const std::uint64_t pooled = count(launch, 5) * count(launch, 6);
  if (pooled == 0 || results % pooled != 0 || !windows_cover(launch, 5, height, width)) return false;
  touch(out, address(launch, 1), results / pooled * height * width * bytes, TouchKind::read);
  touch(out, address(launch, 15), results * bytes, TouchKind::write);
  touch(out, address(launch, 16), results * 8, TouchKind::write);
  out.scalars = hash_of(launch, 2, 15, results);
  return true;
}

// (gradient, places, images, channels, height, width, and so on, input's gradient)
bool max_pool_backward(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  const std::uint32_t bytes = arguments.empty() ? 0 : bytes_of(arguments[0]);
  if (bytes == 0 || !sizes_are(launch, {pointer, pointer, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, pointer}))
    return false;
  const std::uint64_t planes = count(launch, 2) * count(launch, 3);
  const std::uint64_t height = count(launch, 4), width = count(launch, 5);
  const std::uint64_t results = planes * count(launch, 6) * count(launch, 7);
  if (!windows_cover(launch, 6, height, width)) return false;
  touch(out, address(launch, 0), results * bytes, TouchKind::read);
  touch(out, address(launch, 1), results * 8, TouchKind::read);
  touch(out, address(launch, 16), planes * height * width * bytes, TouchKind::write);
  out.scalars = hash_of(launch, 2, 16);
  return true;
}

// Channels last: (input, images, channels, height, width, pooled height and width, and so on, strides of
// image, channel, row and column, two of how threads share channels, result, places)
bool max_pool_forward_last(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  const std::uint32_t bytes = arguments.empty() ? 0 : bytes_of(arguments[0]);
  if (bytes == 0 || !sizes_are(launch, {pointer, 4, 4, 4, 4, 4, 4, 4, 4, 4,       4,      4,
                                        4,       4, 4, 4, 4, 4, 4, 4, 4, pointer, pointer}))
    return false;
  const std::uint64_t images = count(launch, 1), channels = count(launch, 2);
  const std::uint64_t height = count(launch, 3), width = count(launch, 4);
  if (!windows_cover(launch, 5, height, width) || count(launch, 15) != height * width * channels ||
      count(launch, 16) != 1 || count(launch, 17) != width * channels || count(launch, 18) != channels)
    return false;
  const std::uint64_t results = images * count(launch, 5) * count(launch, 6) * channels;
  touch(out, address(launch, 0), images * height * width * channels * bytes, TouchKind::read);
  touch(out, address(launch, 21), results * bytes, TouchKind::write);
  touch(out, address(launch, 22), results * 8, TouchKind::write);
  out.scalars = hash_of(launch, 1, 21);
  return true;
}

// (gradient, places, images, channels, height, width, and so on, the gradient's strides of channel, row and
// column, two of how threads share channels, input's gradient). Where a place is in one window only and not
// the largest there, nothing is written: the program has left zeros.
bool max_pool_backward_last(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  const std::uint32_t bytes = arguments.empty() ? 0 : bytes_of(arguments[0]);
  if (bytes == 0 || !sizes_are(launch, {pointer, pointer, 4, 8, 8, 8, 4, 4, 4, 4, 4,
                                        4,       4,       4, 4, 4, 4, 4, 4, 4, 4, pointer}))
    return false;
  const std::uint64_t images = count(launch, 2), channels = count(launch, 3);
  const std::uint64_t height = count(launch, 4), width = count(launch, 5);
  if (!windows_cover(launch, 6, height, width) || count(launch, 16) != 1 ||
      count(launch, 17) != count(launch, 7) * channels || count(launch, 18) != channels)
    return false;
  const std::uint64_t results = images * count(launch, 6) * count(launch, 7) * channels;
  touch(out, address(launch, 0), results * bytes, TouchKind::read);
  touch(out, address(launch, 1), results * 8, TouchKind::read);
  touch(out, address(launch, 21), images * height * width * channels * bytes, TouchKind::read_write);
  out.scalars = hash_of(launch, 2, 21);
  return true;
}

// native/cuda/Loss.cu: (loss, sum of weights, input, classes, weights, mean, rows, columns, classes, ignored)
bool nll_loss_forward(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 3 ||
      !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, 1, 8, 8, 8, 8}))
    return false;
  const std::uint32_t bytes = bytes_of(arguments[0]), index = bytes_of(arguments[2]);
  if (bytes == 0 || index == 0) return false;
  const std::uint64_t rows = count(launch, 6);
  touch(out, address(launch, 2), rows * count(launch, 7) * bytes, TouchKind::read);
  touch(out, address(launch, 3), rows * index, TouchKind::read);
  const std::uint64_t weights = address(launch, 4);
  if (weights != 0) touch(out, weights, count(launch, 8) * bytes, TouchKind::read);
  touch(out, address(launch, 0), bytes, TouchKind::write);
  touch(out, address(launch, 1), bytes, TouchKind::write);
  out.scalars = hash_of(launch, 5, 10, weights != 0);
  return true;
}

// (input's gradient, gradient, classes, weights, sum of weights, mean, rows, columns, classes, ignored); one
// element of each row is written.
bool nll_loss_backward(const KernelLaunch& launch, Footprint& out) {
  const auto arguments = template_arguments(launch.name);
  if (arguments.size() != 2 ||
      !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, 1, 4, 4, 8, 8}))
    return false;
  const std::uint32_t bytes = bytes_of(arguments[0]), index = bytes_of(arguments[1]);
  if (bytes == 0 || index == 0) return false;
  const std::uint64_t rows = count(launch, 6);
  const bool mean = parameter<std::uint8_t>(launch, 5) != 0;
  touch(out, address(launch, 1), bytes, TouchKind::read);
  touch(out, address(launch, 2), rows * index, TouchKind::read);
  const std::uint64_t weights = address(launch, 3);
  if (weights != 0) touch(out, weights, count(launch, 8) * bytes, TouchKind::read);
  if (mean) touch(out, address(launch, 4), bytes, TouchKind::read);
  touch(out, address(launch, 0), rows * count(launch, 7) * bytes, TouchKind::read_write);
  out.scalars = hash_of(launch, 5, 10, weights != 0);
  return true;
}

}  // namespace softgpu::pytorch
