#include <algorithm>
#include <vector>

#include "softgpu/cudnn/convolution/convolution.h"
#include "softgpu/cudnn/convolution/onednn.h"
#include "softgpu/cudnn/descriptors/descriptors.h"
#include "softgpu/cudnn/elements/element_types.h"
#include "softgpu/cudnn/elements/map_elements.h"
#include "softgpu/lanes.h"

namespace softgpu::cudnn {
namespace {

using Floats = std::vector<float>;

// Each K, C slice of a filter read backwards: convolution is cross-correlation with that.
Floats mirrored(const ConvShape& s, const float* w) {
  Floats result(w, w + filter_elements(s));
  const std::int64_t slice = filter_elements(s) / (s.k * (s.c / s.groups));
  for (auto at = result.begin(); at != result.end(); at += slice) std::reverse(at, at + slice);
  return result;
}

// to = alpha * from + beta * to; `from` is packed.
void blend(float* to, const Layout& to_layout, const Floats& from, float alpha, float beta) {
  map_elements<1>(to, {from.data()}, {to_layout, packed_like(to_layout)}, beta,
                  [&](const Block* in, Block& result, std::int64_t count) {
                    for (std::int64_t i = 0; i < count; ++i) result[i] = alpha * in[0][i];
                  });
}

bool plain(const ConvArgs& a) {
  return a.type == CUDNN_DATA_FLOAT && same_layout(a.w, packed_like(a.w));
}

void footprint_of(const ConvArgs& a, const char* kind, Footprint& out) {
  const std::int64_t outputs_again = a.beta == 0.0F ? 0 : 1;
  out.kind = kind;
  out.flops = a.flops;
  const auto element = static_cast<double>(element_bytes(a.type));
  out.bytes = element * static_cast<double>(element_count(a.x) + element_count(a.y) + element_count(a.w)) +
              2.0 * static_cast<double>(a.workspace_bytes) +
              element * static_cast<double>(outputs_again * element_count(a.y));
}

}  // namespace

void ConvForward::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[1], a.w, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[2], a.y, written(a.beta), element_bytes(a.type));
  add_touch(out, p[3], a.workspace_bytes, TouchKind::write);
  footprint_of(a, "conv_fwd", out);
}

void ConvForward::run(const Pointers<4>& p, const Args& a) {
  if (!plain(a))
    return run_as_floats<ConvForward>(p, a,
                                      {{0, &Args::x, false}, {1, &Args::w, false}, {2, &Args::y, true}});
  const float* w = device_memory<const float>(p[1]);
  Floats turned;
  if (a.shape.flipped) {
    turned = mirrored(a.shape, w);
    w = turned.data();
  }
  const float* x = device_memory<const float>(p[0]);
  float* y = device_memory(p[2]);
  if (a.alpha == 1.0F && a.beta == 0.0F) {
    convolve(ConvDirection::forward, a.shape, a.x, a.y, x, w, y);
    return;
  }
  Floats result(static_cast<std::size_t>(element_count(a.y)));
  convolve(ConvDirection::forward, a.shape, a.x, packed_like(a.y), x, w, result.data());
  blend(y, a.y, result, a.alpha, a.beta);
}

void ConvBackwardData::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.w, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[1], a.y, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[2], a.x, written(a.beta), element_bytes(a.type));
  add_touch(out, p[3], a.workspace_bytes, TouchKind::write);
  footprint_of(a, "conv_dgrad", out);
}

void ConvBackwardData::run(const Pointers<4>& p, const Args& a) {
  if (!plain(a))
    return run_as_floats<ConvBackwardData>(p, a,
                                           {{0, &Args::w, false}, {1, &Args::y, false}, {2, &Args::x, true}});
  const float* w = device_memory<const float>(p[0]);
  Floats turned;
  if (a.shape.flipped) {
    turned = mirrored(a.shape, w);
    w = turned.data();
  }
  const float* dy = device_memory<const float>(p[1]);
  float* dx = device_memory(p[2]);
  if (a.alpha == 1.0F && a.beta == 0.0F) {
    convolve(ConvDirection::backward_data, a.shape, a.x, a.y, w, dy, dx);
    return;
  }
  Floats result(static_cast<std::size_t>(element_count(a.x)));
  convolve(ConvDirection::backward_data, a.shape, packed_like(a.x), a.y, w, dy, result.data());
  blend(dx, a.x, result, a.alpha, a.beta);
}

void ConvBackwardFilter::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[1], a.y, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[2], a.w, written(a.beta), element_bytes(a.type));
  add_touch(out, p[3], a.workspace_bytes, TouchKind::write);
  footprint_of(a, "conv_wgrad", out);
}

void ConvBackwardFilter::run(const Pointers<4>& p, const Args& a) {
  if (!plain(a))
    return run_as_floats<ConvBackwardFilter>(
        p, a, {{0, &Args::x, false}, {1, &Args::y, false}, {2, &Args::w, true}});
  const float* x = device_memory<const float>(p[0]);
  const float* dy = device_memory<const float>(p[1]);
  float* dw = device_memory(p[2]);
  if (a.alpha == 1.0F && a.beta == 0.0F && !a.shape.flipped) {
    convolve(ConvDirection::backward_filter, a.shape, a.x, a.y, x, dy, dw);
    return;
  }
  Floats result(static_cast<std::size_t>(filter_elements(a.shape)));
  convolve(ConvDirection::backward_filter, a.shape, a.x, a.y, x, dy, result.data());
  if (a.shape.flipped) result = mirrored(a.shape, result.data());
  blend(dw, a.w, result, a.alpha, a.beta);
}

void ConvBiasActivation::footprint(const Pointers<6>& p, const Args& a, Footprint& out) {
  const std::uint64_t bias_bytes = 4 * static_cast<std::uint64_t>(a.conv.shape.k);
  add_touches(out, p[0], a.conv.x, TouchKind::read);
  add_touches(out, p[1], a.conv.w, TouchKind::read);
  if (a.alpha2 != 0.0F) add_touches(out, p[2], a.z, TouchKind::read);
  add_touch(out, p[3], bias_bytes, TouchKind::read);
  add_touches(out, p[4], a.conv.y, TouchKind::write);
  add_touch(out, p[5], a.conv.workspace_bytes, TouchKind::write);
  footprint_of(a.conv, "conv_fwd", out);
  if (a.alpha2 != 0.0F) out.bytes += 4.0 * static_cast<double>(element_count(a.z));
}

void ConvBiasActivation::run(const Pointers<6>& p, const Args& a) {
  const ConvArgs& c = a.conv;
  Floats result(static_cast<std::size_t>(element_count(c.y)));
  Pointers<4> plain{p[0], p[1], reinterpret_cast<std::uint64_t>(result.data()), 0};
  ConvArgs to_result = c;
  to_result.y = packed_like(c.y);
  to_result.beta = 0.0F;
  ConvForward::run(plain, to_result);

  Layout bias = packed({1, c.shape.k});
  for (bias.rank = 2; bias.rank < c.y.rank; ++bias.rank) {
    bias.dims[bias.rank] = 1;
    bias.strides[bias.rank] = 1;
  }
  bias = stretched(bias, c.y);
  float* y = device_memory(p[4]);
  const auto* z = device_memory<const float>(p[2]);
  const auto* b = device_memory<const float>(p[3]);
  if (a.alpha2 != 0.0F) {
    map_elements<3>(y, {result.data(), b, z}, {c.y, to_result.y, bias, a.z}, 0.0F,
                    [&](const Block* in, Block& out, std::int64_t count) {
                      for (std::int64_t i = 0; i < count; ++i)
                        out[i] = in[0][i] + a.alpha2 * in[2][i] + in[1][i];
                      activate(a.activation, out, count);
                    });
  } else {
    map_elements<2>(y, {result.data(), b}, {c.y, to_result.y, bias}, 0.0F,
                    [&](const Block* in, Block& out, std::int64_t count) {
                      for (std::int64_t i = 0; i < count; ++i) out[i] = in[0][i] + in[1][i];
                      activate(a.activation, out, count);
                    });
  }
}

void ConvBackwardBias::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.dy, TouchKind::read);
  add_touch(out, p[1], 4 * static_cast<std::uint64_t>(a.dy.dims[1]), written(a.beta));
  out.kind = "conv_bias";
  out.flops = static_cast<double>(element_count(a.dy));
  out.bytes = 4 * static_cast<double>(element_count(a.dy));
}

void ConvBackwardBias::run(const Pointers<2>& p, const Args& a) {
  const std::int64_t step = merged_stride(a.dy, 2);
  const std::int64_t positions = element_count(a.dy) / (a.dy.dims[0] * a.dy.dims[1]);
  in_two(a.dy.dims[1], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t k = begin; k < end; ++k) {
      Lanes sum;
      for (std::int64_t n = 0; n < a.dy.dims[0]; ++n) {
        const float* row = device_memory<const float>(p[0]) + n * a.dy.strides[0] + k * a.dy.strides[1];
        accumulate(sum, positions, [=](std::int64_t i) { return static_cast<double>(row[i * step]); });
      }
      float& db = device_memory(p[1])[k];
      const float value = a.alpha * static_cast<float>(sum.total());
      db = a.beta == 0.0F ? value : value + a.beta * db;
    }
  });
}

}  // namespace softgpu::cudnn
