// Batch normalisation with channels last: native/cuda/Normalization.cuh and native/cuda/Normalization.cu.
#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {
namespace {

// <…, type, type of statistics, type of weights, …>, the first of these at `first`.
struct Types {
  std::uint64_t element, statistic, weight;
};
std::optional<Types> types_of(const KernelLaunch& launch, std::size_t first) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 4) return std::nullopt;
  const Types types{bytes_of(given[first]), bytes_of(given[first + 1]), bytes_of(given[first + 2])};
  return types.element == 0 || types.statistic == 0 || types.weight == 0 ? std::nullopt
                                                                         : std::optional(types);
}

// Where several blocks share a channel each leaves its part, `parts` numbers for each channel, and the last
// of them, by a counter from zero, adds them up.
void touch_between_blocks(const KernelLaunch& launch, std::uint32_t first, std::uint64_t bytes,
                          Footprint& out) {
  if (launch.grid[1] <= 1) return;
  touch(out, address(launch, first), launch.grid[1] * bytes, TouchKind::write);
  touch(out, address(launch, first + 1), std::uint64_t{launch.grid[0]} * sizeof(std::int32_t),
        TouchKind::read_write);
}

std::uint64_t hash_of_grid(const KernelLaunch& launch) {
  return Hash(launch.grid[0]).add(launch.grid[1]).value();
}

}  // namespace

// <of the variance, type, type of statistics, loads>(input, mean, variance, parts, counters, rows, channels,
// epsilon)
bool batch_norm_statistics(const KernelLaunch& launch, Footprint& out) {
  const auto given = template_arguments(launch.name);
  if (given.size() != 4 || !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, 4, 4, 4}))
    return false;
  const std::uint64_t element = bytes_of(given[1]), statistic = bytes_of(given[2]);
  if (element == 0 || statistic != 4) return false;
  const std::uint64_t rows = count(launch, 5), channels = count(launch, 6);
  touch(out, address(launch, 0), rows * channels * element, TouchKind::read);
  touch_between_blocks(launch, 3, channels * (2 * statistic + sizeof(std::int32_t)), out);
  touch(out, address(launch, 1), channels * statistic, TouchKind::write);
  touch(out, address(launch, 2), channels * statistic, TouchKind::write);
  out.scalars = hash_of(launch, 5, 8, hash_of_grid(launch));
  return true;
}

// unrolled_elementwise_kernel_for_multi_outputs<3, lambda, …>(int channels, lambda, {running mean, running
// variance, 1 / deviation, mean, variance, running mean, running variance}, …). The lambda holds the factor
// that makes the variance unbiased, the momentum and epsilon. What runs goes into nothing but itself; the
// deviation takes the variance's place.
bool batch_norm_running(const KernelLaunch& launch, Footprint& out) {
  struct Lambda {
    float unbiased, momentum, epsilon, unset[3];
  };
  struct Operands {
    std::uint64_t running[2], deviation, mean, variance, running_in[2];
  };
  const auto given = template_arguments(launch.name);
  constexpr std::string_view lambda =
      "at::native::(anonymous namespace)::batch_norm_update_stats_and_invert(";
  constexpr std::string_view of_floats = "{lambda(float, float, float, float)#1}";
  if (given.size() != 5 || !given[1].starts_with(lambda) || !given[1].ends_with(of_floats) ||
      !sizes_are(launch, {4, sizeof(Lambda), sizeof(Operands), 1, 1}))
    return false;
  const auto number = parameter<Lambda>(launch, 1);
  const auto at = parameter<Operands>(launch, 2);
  if (at.running[0] != at.running_in[0] || at.running[1] != at.running_in[1] || at.deviation != at.variance)
    return false;
  const std::uint64_t bytes = count(launch, 0) * sizeof(float);
  touch(out, at.mean, bytes, TouchKind::read);
  touch(out, at.variance, bytes, TouchKind::read_write);
  std::uint32_t momentum;
  std::memcpy(&momentum, &number.momentum, sizeof momentum);
  for (const std::uint64_t running : at.running)
    if (bytes > 0) out.touches.push_back({running, bytes, TouchKind::update, momentum});
  Hash hash(count(launch, 0));
  out.scalars = hash.add_bytes(&number.unbiased, 4).add_bytes(&number.epsilon, 4).value();
  return true;
}

// <type, type of statistics, type of weights, loads>(input, what is added, mean, 1 / deviation, gamma, beta,
// result, rows, channels, at least 0)
bool batch_norm_forward(const KernelLaunch& launch, Footprint& out) {
  const auto types = types_of(launch, 0);
  if (!types || !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, pointer, pointer, 4, 4, 1}))
    return false;
  const std::uint64_t channels = count(launch, 8), all = count(launch, 7) * channels * types->element;
  touch(out, address(launch, 0), all, TouchKind::read);
  touch_if_there(out, address(launch, 1), all, TouchKind::read);
  for (const std::uint32_t i : {2, 3})
    touch(out, address(launch, i), channels * types->statistic, TouchKind::read);
  for (const std::uint32_t i : {4, 5})
    touch_if_there(out, address(launch, i), channels * types->weight, TouchKind::read);
  touch(out, address(launch, 6), all, TouchKind::write);
  Hash hash(hash_of(launch, 7, 10));
  for (const std::uint32_t i : {1, 4, 5}) hash.add(address(launch, i) != 0);
  out.scalars = hash.value();
  return true;
}

// <loads, type, type of statistics, type of weights>(input, gradient, mean, 1 / deviation, sum of the
// gradient, sum of its product with the input, gamma's gradient, beta's, parts, counters, rows, channels)
bool batch_norm_backward_sums(const KernelLaunch& launch, Footprint& out) {
  const auto types = types_of(launch, 1);
  if (!types || !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, pointer, pointer, pointer,
                                    pointer, pointer, 4, 4}))
    return false;
  const std::uint64_t channels = count(launch, 11), all = count(launch, 10) * channels * types->element;
  for (const std::uint32_t i : {0, 1}) touch(out, address(launch, i), all, TouchKind::read);
  for (const std::uint32_t i : {2, 3})
    touch(out, address(launch, i), channels * types->statistic, TouchKind::read);
  touch_between_blocks(launch, 8, channels * 2 * types->statistic, out);
  for (const std::uint32_t i : {4, 5})
    touch(out, address(launch, i), channels * types->statistic, TouchKind::write);
  for (const std::uint32_t i : {6, 7})
    touch_if_there(out, address(launch, i), channels * types->weight, TouchKind::write);
  Hash hash(hash_of(launch, 10, 12, hash_of_grid(launch)));
  out.scalars = hash.add(address(launch, 6) != 0).add(address(launch, 7) != 0).value();
  return true;
}

// The same <…>(gradient, input, mean, 1 / deviation, gamma, sum of the gradient, sum of its product with the
// input, input's gradient, 1 / rows, rows, channels)
bool batch_norm_backward(const KernelLaunch& launch, Footprint& out) {
  const auto types = types_of(launch, 1);
  if (!types || types->statistic != 4 ||
      !sizes_are(launch, {pointer, pointer, pointer, pointer, pointer, pointer, pointer, pointer, 4, 4, 4}))
    return false;
  const std::uint64_t channels = count(launch, 10), all = count(launch, 9) * channels * types->element;
  for (const std::uint32_t i : {0, 1}) touch(out, address(launch, i), all, TouchKind::read);
  for (const std::uint32_t i : {2, 3, 5, 6})
    touch(out, address(launch, i), channels * types->statistic, TouchKind::read);
  touch_if_there(out, address(launch, 4), channels * types->weight, TouchKind::read);
  touch(out, address(launch, 7), all, TouchKind::write);
  out.scalars = hash_of(launch, 8, 11, address(launch, 4) != 0);
  return true;
}

}  // namespace softgpu::pytorch
