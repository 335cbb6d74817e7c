#include "softgpu/cudnn/normalization/batch_norm_relu.h"

#include <cstring>

#include "softgpu/cudnn/elements/element_rows.h"

namespace softgpu::cudnn {

void NormReluForward::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  const std::int64_t count = element_count(a.y);
  add_touches(out, p[0], a.y, TouchKind::read_write);
  if (p[1]) add_touches(out, p[1], a.z, TouchKind::read);
  add_touch(out, p[2], mask_bytes(count), TouchKind::write);
  out.kind = "activation_fwd";
  out.flops = 2 * static_cast<double>(count);
  out.bytes =
      (p[1] ? 12 : 8) * static_cast<double>(count) + (p[2] ? static_cast<double>(mask_bytes(count)) : 0);
}

void NormReluForward::run(const Pointers<3>& p, const Args& a) {
  auto* mask = device_memory<std::uint8_t>(p[2]);
  if (mask) std::memset(mask, 0, mask_bytes(element_count(a.y)));
  const Layout& z_layout = p[1] ? a.z : a.y;
  each_row<2>({a.y, z_layout}, [&](std::int64_t first, const Row<2>& row) {
    float* y = device_memory(p[0]) + row.offsets[0];
    const float* z = p[1] ? device_memory<const float>(p[1]) + row.offsets[1] : nullptr;
    for (std::int64_t i = 0; i < row.length; ++i) {
      float& value = y[i * row.strides[0]];
      const float sum = z ? value + z[i * row.strides[1]] : value;
      const bool passes = sum > 0.0F;
      value = passes ? sum : 0.0F;
      const std::int64_t at = first + i;
      if (mask && passes) mask[at / 8] = static_cast<std::uint8_t>(mask[at / 8] | 1U << (at % 8));
    }
  });
}

void NormReluBackward::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  const std::int64_t count = element_count(a.dy);
  add_touches(out, p[0], a.dy, TouchKind::read);
  add_touch(out, p[2], mask_bytes(count), TouchKind::read);
  add_touches(out, p[1], a.dx, TouchKind::write);
  out.kind = "activation_bwd";
  out.flops = static_cast<double>(count);
  out.bytes = 8 * static_cast<double>(count) + static_cast<double>(mask_bytes(count));
}

void NormReluBackward::run(const Pointers<3>& p, const Args& a) {
  const auto* mask = device_memory<const std::uint8_t>(p[2]);
  each_row<2>({a.dy, a.dx}, [&](std::int64_t first, const Row<2>& row) {
    const float* dy = device_memory<const float>(p[0]) + row.offsets[0];
    float* dx = device_memory(p[1]) + row.offsets[1];
    for (std::int64_t i = 0; i < row.length; ++i)
      dx[i * row.strides[1]] = mask_bit(mask, first + i) ? dy[i * row.strides[0]] : 0.0F;
  });
}

}  // namespace softgpu::cudnn
