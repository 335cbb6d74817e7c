#include "core/op_kind.h"

#include <algorithm>
#include <iterator>

namespace pooch {
namespace {

using enum OpTraits;

constexpr std::uint32_t bit(OpKind kind) {
  return std::uint32_t{1} << static_cast<unsigned>(kind);
}

// Kind, name, half, traits, layer, the backward pass of which. Up to the traits on one line, as
// interpose/spec/language.py reads it.
constexpr OpKindFacts table[] = {
    {OpKind::conv_forward, "conv_forward", Direction::forward, replayed | apart | parameters, "convolution",
     0},
    {OpKind::conv_backward_data, "conv_backward_data", Direction::backward, none, "conv_backward_data",
     bit(OpKind::conv_forward)},
    {OpKind::conv_backward_filter, "conv_backward_filter", Direction::backward, none, "conv_backward_filter",
     bit(OpKind::conv_forward)},
    {OpKind::conv_backward_bias, "conv_backward_bias", Direction::backward, none, "conv_backward_bias", 0},
    {OpKind::batch_norm_forward, "batch_norm_forward", Direction::forward, replayed, "batch_norm", 0},
    {OpKind::batch_norm_backward, "batch_norm_backward", Direction::backward, none, "batch_norm_backward",
     bit(OpKind::batch_norm_forward)},
    {OpKind::activation_forward, "activation_forward", Direction::forward, replayed, "activation", 0},
    {OpKind::activation_backward, "activation_backward", Direction::backward, none, "activation_backward",
     bit(OpKind::activation_forward)},
    {OpKind::pooling_forward, "pooling_forward", Direction::forward, replayed | apart, "max_pooling", 0},
    {OpKind::pooling_backward, "pooling_backward", Direction::backward, none, "pooling_backward",
     bit(OpKind::pooling_forward)},
    {OpKind::softmax_forward, "softmax_forward", Direction::forward, replayed, "softmax", 0},
    {OpKind::softmax_backward, "softmax_backward", Direction::backward, none, "softmax_backward",
     bit(OpKind::softmax_forward)},
    {OpKind::response_norm_forward, "response_norm_forward", Direction::forward, replayed | apart,
     "response_norm", 0},
    {OpKind::response_norm_backward, "response_norm_backward", Direction::backward, none,
     "response_norm_backward", bit(OpKind::response_norm_forward)},
    // Draws new numbers each time.
    {OpKind::dropout_forward, "dropout_forward", Direction::forward, none, "dropout", 0},
    {OpKind::dropout_backward, "dropout_backward", Direction::backward, none, "dropout_backward",
     bit(OpKind::dropout_forward)},
    {OpKind::elementwise, "elementwise", Direction::either, replayed, "addition", bit(OpKind::elementwise)},
    {OpKind::gemm, "gemm", Direction::either, replayed | apart | parameters, "linear", bit(OpKind::gemm)},
    // The gradient of a cross entropy is made from the softmax by a difference.
    {OpKind::blas, "blas", Direction::either, none, "blas", bit(OpKind::softmax_forward)},
    {OpKind::copy_in, "copy_in", Direction::either, none, "copy_in", 0},
    {OpKind::copy_out, "copy_out", Direction::either, none, "copy_out", 0},
    {OpKind::copy_device, "copy_device", Direction::either, replayed, "copy_device", 0},
    {OpKind::set, "set", Direction::either, replayed, "set", 0},
    {OpKind::bare_launch, "bare_launch", Direction::either, launch, "bare_launch", bit(OpKind::bare_launch)},
    {OpKind::launch_forward, "launch_forward", Direction::forward, launch, "launch_forward", 0},
    {OpKind::launch_backward, "launch_backward", Direction::backward, launch, "launch_backward",
     bit(OpKind::launch_forward) | bit(OpKind::kernel_forward)},
    {OpKind::collective, "collective", Direction::either, none, "collective", 0},
    {OpKind::kernel, "kernel", Direction::either, replayed | launch | by_code, "kernel", bit(OpKind::kernel)},
    {OpKind::kernel_forward, "kernel_forward", Direction::forward, replayed | launch | by_code,
     "kernel_forward", 0},
    {OpKind::kernel_backward, "kernel_backward", Direction::backward, launch | by_code, "kernel_backward",
     bit(OpKind::launch_forward) | bit(OpKind::kernel_forward)},
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(table); ++i)
    if (static_cast<std::size_t>(table[i].kind) != i) return false;
  return std::size(table) == static_cast<std::size_t>(last_op_kind) + 1 && std::size(table) <= 32;
}
static_assert(in_order());

}  // namespace

const OpKindFacts& facts(OpKind kind) {
  return table[static_cast<std::size_t>(kind)];
}

std::optional<OpKind> parse_op_kind(std::string_view text) {
  const auto found = std::find_if(std::begin(table), std::end(table),
                                  [&](const OpKindFacts& one) { return one.name == text; });
  if (found == std::end(table)) return std::nullopt;
  return found->kind;
}

}  // namespace pooch
