#include "softgpu/kernels/pytorch/attention.h"

namespace softgpu::pytorch {
namespace {

std::vector<Dimension> dimensions(const Shape& shape, const Strides& strides, std::uint32_t element) {
  const auto apart = [&](std::int64_t stride) { return static_cast<std::uint64_t>(stride) * element; };
  return {{shape.batches, apart(strides.batch)},
          {shape.rows, apart(strides.row)},
          {shape.heads, apart(strides.head)},
          {shape.width, element}};
}

// The bytes from one of three to the next where they lie side by side in each row, as one projection leaves
// them. The distance is then a part of the layout, not of where memory happens to be.
std::uint64_t side_by_side(const Inputs& in, std::uint32_t element) {
  const auto same = [&](int i) {
    const Shape &a = in.shapes[0], &b = in.shapes[i];
    const Strides &s = in.strides[0], &t = in.strides[i];
    return a.rows == b.rows && a.width == b.width && s.batch == t.batch && s.row == t.row && s.head == t.head;
  };
  const std::uint64_t apart = in.addresses[1] - in.addresses[0];
  const bool even = in.addresses[0] < in.addresses[1] && in.addresses[2] - in.addresses[1] == apart;
  const std::int64_t row = in.strides[0].row;
  return even && same(1) && same(2) && row > 0 && 3 * apart <= static_cast<std::uint64_t>(row) * element
             ? apart
             : 0;
}

}  // namespace

void hash_tensor(Hash& hash, const Shape& shape, const Strides& strides) {
  hash.add(shape.batches).add(shape.heads).add(shape.rows).add(shape.width);
  for (const std::int64_t stride : {strides.batch, strides.row, strides.head})
    hash.add(static_cast<std::uint64_t>(stride));
}

bool touch_tensor(Footprint& out, std::uint64_t address, const Shape& shape, const Strides& strides,
                  std::uint32_t element, TouchKind kind) {
  if (strides.batch < 0 || strides.row < 0 || strides.head < 0) return false;
  return touch_strided(out, address, dimensions(shape, strides, element), element, kind);
}

bool read_inputs(const Inputs& in, std::uint32_t element, Hash& hash, Footprint& out) {
  for (int i = 0; i < 3; ++i) hash_tensor(hash, in.shapes[i], in.strides[i]);
  if (const std::uint64_t apart = side_by_side(in, element)) {
    // One range instead of three pieces for each row.
    auto all = dimensions(in.shapes[0], in.strides[0], element);
    all.push_back({3, apart});
    hash.add(apart);
    return touch_strided(out, in.addresses[0], all, element, TouchKind::read);
  }
  for (int i = 0; i < 3; ++i)
    if (!touch_tensor(out, in.addresses[i], in.shapes[i], in.strides[i], element, TouchKind::read))
      return false;
  return true;
}

}  // namespace softgpu::pytorch
