#include "interpose/cudnn/batch_norm.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "interpose/cudnn/facts.h"
#include "interpose/cudnn/text.h"
#include "interpose/hooks/libraries.h"
#include "interpose/kernels/kernel_facts.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cudnn, cudnnGetActivationDescriptor);

bool equal(const TensorText& a, const TensorText& b) {
  return a.type == b.type && a.rank == b.rank && a.dimensions == b.dimensions && a.strides == b.strides;
}

// Strides of a tensor without gaps whose dimensions, outermost first, are in this order.
bool packed(const TensorText& text, std::span<const int> order) {
  std::int64_t stride = 1;
  for (auto d = order.rbegin(); d != order.rend(); ++d) {
    if (text.strides[*d] != stride) return false;
    stride *= text.dimensions[*d];
  }
  return true;
}

std::optional<BatchNorm> layout_of(const TensorText& x) {
  std::array<int, CUDNN_DIM_MAX> rows_first{}, channels_last{};
  std::int64_t inner = 1;
  for (int d = 0; d < x.rank; ++d) {
    if (x.dimensions[d] <= 0) return std::nullopt;
    rows_first[d] = d;
    channels_last[d] = d == 0 ? 0 : d + 1 < x.rank ? d + 1 : 1;
    if (d > 1) inner *= x.dimensions[d];
  }
  constexpr std::int64_t most = INT32_MAX;
  const auto n = static_cast<std::uint64_t>(x.dimensions[0]);
  const auto channels = static_cast<std::uint32_t>(x.dimensions[1]);
  if (inner > most) return std::nullopt;
  const bool half = x.type == CUDNN_DATA_HALF;
  const auto rank = static_cast<std::size_t>(x.rank);
  if (packed(x, std::span(rows_first).first(rank)))
    return BatchNorm{n * channels, static_cast<std::uint32_t>(inner), channels, true, half};
  if (packed(x, std::span(channels_last).first(rank)))
    return BatchNorm{n * static_cast<std::uint64_t>(inner), channels, channels, false, half};
  return std::nullopt;
}

}  // namespace

std::optional<Substitute> batch_norm_again(const Scope& scope, std::span<const Access> accesses,
                                           const BatchNormCall& call) {
  TensorText x, y;
  const bool plain = call.ops == CUDNN_BATCHNORM_OPS_BN && call.mode != CUDNN_BATCHNORM_PER_ACTIVATION;
  if (!plain || call.at.x == call.at.y || !x.read(scope, call.x_descriptor) ||
      !y.read(scope, call.y_descriptor) || !equal(x, y) || x.rank < 4 ||
      (x.type != CUDNN_DATA_FLOAT && x.type != CUDNN_DATA_HALF) ||
      scalar_of(scope, call.alpha, call.x_descriptor) != Scalar::one ||
      scalar_of(scope, call.beta, call.y_descriptor) != Scalar::zero)
    return std::nullopt;
  const auto layout = layout_of(x);
  if (!layout) return std::nullopt;
  Substitute made{*layout, {}};
  using Places = BatchNormOperands<std::uint32_t>;
  using Pointers = BatchNormOperands<const void*>;
  const auto find = [&](std::uint32_t Places::*place, const void* Pointers::*pointer) {
    const Address address{reinterpret_cast<std::uintptr_t>(call.at.*pointer)};
    const auto found = std::find_if(accesses.begin(), accesses.end(),
                                    [&](const Access& access) { return access.address == address; });
    made.operands.*place = static_cast<std::uint32_t>(found - accesses.begin());
    return call.at.*pointer != nullptr && found != accesses.end();
  };
  const bool all = find(&Places::x, &Pointers::x) && find(&Places::y, &Pointers::y) &&
                   find(&Places::scale, &Pointers::scale) && find(&Places::bias, &Pointers::bias) &&
                   find(&Places::mean, &Pointers::mean) && find(&Places::inverse, &Pointers::inverse);
  return all ? std::optional(made) : std::nullopt;
}

Clip clip_of(const Scope& scope, cudnnActivationDescriptor_t activation, const void* alpha, const void* beta,
             cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t y) {
  cudnnActivationMode_t mode;
  cudnnNanPropagation_t nan;
  double limit = 0;
  auto* const get = real_cudnnGetActivationDescriptor.get_if_present(scope);
  if (get == nullptr || get(activation, &mode, &nan, &limit) != CUDNN_STATUS_SUCCESS ||
      mode != CUDNN_ACTIVATION_RELU || scalar_of(scope, alpha, x) != Scalar::one ||
      scalar_of(scope, beta, y) != Scalar::zero)
    return Clip::none;
  return nan == CUDNN_PROPAGATE_NAN ? Clip::keeps_nan : Clip::drops_nan;
}

// vectorized_elementwise_kernel(int elements, functor, operands) of
// aten/src/ATen/native/cuda/TensorCompare.cu (launch_clamp_scalar): its functor has two limits and which of
// them hold, of which the lower one alone is 0.
Clip clip_of(std::string_view mode, const LaunchParams& params) {
  constexpr std::size_t limits = 12, two_addresses = 16;
  constexpr std::array<std::byte, limits> zeros{};
  if (mode != "clamp" || params.count() != 3 || params.at(1).size() < limits ||
      params.at(2).size() != two_addresses)
    return Clip::none;
  return std::memcmp(params.at(1).data(), zeros.data(), limits) == 0 ? Clip::keeps_nan : Clip::none;
}

}  // namespace pooch::interpose
