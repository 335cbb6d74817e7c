// What interpose/ hands over: one call of the program that touches device memory.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "core/effect.h"
#include "core/ids.h"

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
  elementwise,
  gemm,
  blas,
  copy_in,      // host to device
  copy_out,     // device to host
  copy_device,  // device to device
  set,
  bare_launch,
};

// One operand: `bytes` bytes from `address`. Addresses that pooch does not manage are allowed and ignored.
struct Access {
  Address address;
  std::uint64_t bytes;
  Effect effect;
};

struct Call {
  std::string_view function;  // the API function's name; static storage
  OpKind kind;
  StreamHandle stream;
  std::span<const Access> accesses;
  bool blocks = false;  // the host waits for the device inside the call (a synchronous copy)
};

}  // namespace pooch
