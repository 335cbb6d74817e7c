// What a call does, as finely as pooch distinguishes calls, and what follows from it.
//
// The only table of it is in core/op_kind.cpp. The generator of wrappers reads the same table
// (interpose/spec/language.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace pooch {

enum class OpKind : std::uint8_t {
  conv_forward,
  conv_backward_data,
  conv_backward_filter,
  conv_backward_bias,
  batch_norm_forward,
  batch_norm_backward,
  activation_forward,
  activation_backward,
  pooling_forward,
  pooling_backward,
  softmax_forward,
  softmax_backward,
  response_norm_forward,
  response_norm_backward,
  dropout_forward,
  dropout_backward,
  elementwise,
  gemm,
  blas,
  copy_in,      // host to device
  copy_out,     // device to host
  copy_device,  // device to device
  set,
  bare_launch,
  launch_forward,  // a bare launch whose name tells forward from backward
  launch_backward,
  collective,      // between devices: never replayed, since all of them would have to take part
  kernel,          // a bare launch whose machine code shows all that it touches
  kernel_forward,  // ... and whose name tells forward from backward
  kernel_backward,
};
constexpr OpKind last_op_kind = OpKind::kernel_backward;

// The half of a training iteration, if the kind alone tells it.
enum class Direction : std::uint8_t { either, forward, backward };

// Properties of a kind, as bits.
enum class OpTraits : std::uint8_t {
  none = 0,
  replayed = 1,    // may be replayed: its effects are known, and its result depends only on its operands
  apart = 2,       // its result is not in an input's memory
  parameters = 4,  // takes data and weights
  launch = 8,      // a kernel launch: only the code tells what it computes
  by_code = 16,    // ... and that code has been read
};
constexpr OpTraits operator|(OpTraits a, OpTraits b) {
  return static_cast<OpTraits>(static_cast<std::uint8_t>(a) | static_cast<std::uint8_t>(b));
}

// Members in reading order.
struct OpKindFacts {  // NOLINT(clang-analyzer-optin.performance.Padding)
  OpKind kind;
  std::string_view name;  // "conv_forward"
  Direction direction;
  OpTraits traits;
  std::string_view layer;     // "convolution": the usual name of the layer whose forward pass it is
  std::uint32_t backward_of;  // the kinds whose backward pass it may be (part of): a bit per enumerator

  constexpr bool has(OpTraits trait) const {
    return (static_cast<std::uint8_t>(traits) & static_cast<std::uint8_t>(trait)) != 0;
  }
};
const OpKindFacts& facts(OpKind kind);

inline std::string_view name(OpKind kind) {
  return facts(kind).name;
}
std::optional<OpKind> parse_op_kind(std::string_view text);
inline Direction direction(OpKind kind) {
  return facts(kind).direction;
}
// Whether `kind` may be (part of) the backward pass of `forward`.
inline bool is_backward_of(OpKind kind, OpKind forward) {
  return (facts(kind).backward_of >> static_cast<unsigned>(forward) & 1) != 0;
}
constexpr bool is_convolution(OpKind kind) {
  return kind <= OpKind::conv_backward_bias;
}
// Between host and device: may come at any moment between two ops, so it has no position of its own.
constexpr bool is_host_copy(OpKind kind) {
  return kind == OpKind::copy_in || kind == OpKind::copy_out;
}

}  // namespace pooch
