// What the rules for attention share: tensors [sequences, rows, heads, width], whatever lies between their
// rows.
#pragma once

#include "softgpu/kernels/pytorch/rule.h"

namespace softgpu::pytorch {

struct Shape {
  std::uint64_t batches, heads, rows, width;
};
// In elements.
struct Strides {
  std::int64_t batch, row, head;
};

// What goes into queries, keys and values, in this order.
struct Inputs {
  std::uint64_t addresses[3];
  Shape shapes[3];
  Strides strides[3];
};

void hash_tensor(Hash& hash, const Shape& shape, const Strides& strides);
// `element`: its bytes. False as of touch_strided.
bool touch_tensor(Footprint& out, std::uint64_t address, const Shape& shape, const Strides& strides,
                  std::uint32_t element, TouchKind kind);
bool read_inputs(const Inputs& in, std::uint32_t element, Hash& hash, Footprint& out);

inline std::uint64_t rounded_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

}  // namespace softgpu::pytorch
