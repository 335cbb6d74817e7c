// The kernels. Sums run over eight fixed lanes in double precision, so they neither depend on addresses nor
// on the number of threads.
#include "softgpu/cudnn/normalization/batch_norm.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "softgpu/cudnn/descriptors/descriptors.h"
#include "softgpu/cudnn/elements/element_types.h"
#include "softgpu/cudnn/elements/two_threads.h"
#include "softgpu/hash.h"
#include "softgpu/lanes.h"
#include "softgpu/meaning.h"

namespace softgpu::cudnn {
namespace {

// One tensor as N x M x S; the S values of a row are contiguous.
template <class T>
struct View {
  T* data;
  std::int64_t n_stride, m_stride;

  View(std::uint64_t address, const Layout& l, const BatchNormShape& shape)
      : data(device_memory<T>(address)),
        n_stride(l.strides[0]),
        m_stride(shape.s == 1 && shape.m != l.dims[1] ? 1 : l.strides[1]) {}
  T* row(std::int64_t n, std::int64_t m) const { return data + n * n_stride + m * m_stride; }
};

struct Moments {
  double mean, variance;  // variance over the batch itself, not an estimate
};

Moments moments(const View<const float>& x, const BatchNormShape& shape, std::int64_t m) {
  const double count = static_cast<double>(shape.n * shape.s);
  Lanes first;
  for (std::int64_t n = 0; n < shape.n; ++n) {
    const float* row = x.row(n, m);
    accumulate(first, shape.s, [=](std::int64_t i) { return static_cast<double>(row[i]); });
  }
  const double mean = first.total() / count;
  Lanes second;
  for (std::int64_t n = 0; n < shape.n; ++n) {
    const float* row = x.row(n, m);
    accumulate(second, shape.s, [=](std::int64_t i) {
      const double d = static_cast<double>(row[i]) - mean;
      return d * d;
    });
  }
  return {mean, second.total() / count};
}

// out = value(i) + beta * out along one row.
template <class F>
void blend_row(float* out, std::int64_t count, float beta, F value) {
  if (beta == 0.0F) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = value(i);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = value(i) + beta * out[i];
  }
}

void blend(float& out, float value, float beta) {
  out = beta == 0.0F ? value : value + beta * out;
}

// fma(x - mean, slope, bias), which is what a kernel for a GPU is compiled to.
using NormaliseRow = void(float* out, const float* x, std::int64_t count, float mean, float slope,
                          float bias);
[[gnu::target("fma")]] void normalise_row_fma(float* out, const float* x, std::int64_t count, float mean,
                                              float slope, float bias) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = __builtin_fmaf(x[i] - mean, slope, bias);
}
void normalise_row_slow(float* out, const float* x, std::int64_t count, float mean, float slope, float bias) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = std::fma(x[i] - mean, slope, bias);
}
NormaliseRow* normalise_row() {
  return __builtin_cpu_supports("fma") != 0 ? normalise_row_fma : normalise_row_slow;
}

void normalise(const View<const float>& x, const View<float>& y, const BatchNormShape& shape, std::int64_t m,
               float mean, float slope, float bias, float alpha, float beta) {
  constexpr std::int64_t block = 256;
  NormaliseRow* const row = normalise_row();
  float made[block];
  for (std::int64_t n = 0; n < shape.n; ++n) {
    for (std::int64_t at = 0; at < shape.s; at += block) {
      const std::int64_t count = std::min(block, shape.s - at);
      row(made, x.row(n, m) + at, count, mean, slope, bias);
      blend_row(y.row(n, m) + at, count, beta, [&](std::int64_t i) { return alpha * made[i]; });
    }
  }
}

void running_average(float& average, double value, double factor) {
  // A factor of 1 starts the average: what was there has no meaning.
  average = static_cast<float>(
      factor == 1.0 ? value : value * factor + static_cast<double>(average) * (1.0 - factor));
}

// Whether the kernels below can take them as they are.
bool plain(const BatchNormShape& shape, cudnnDataType_t type, std::initializer_list<const Layout*> layouts) {
  for (const Layout* l : layouts) {
    const bool per_activation = shape.s == 1 && shape.m != l->dims[1];
    if (type != CUDNN_DATA_FLOAT || merged_stride(*l, per_activation ? 1 : 2) != 1) return false;
  }
  return true;
}

double count_of(const BatchNormShape& s) {
  return static_cast<double>(s.n * s.m * s.s);
}
std::uint64_t parameter_bytes(const BatchNormShape& s) {
  return 4 * static_cast<std::uint64_t>(s.m);
}

// What is made from saved statistics; nothing where no other kernel means the same.
std::optional<NormaliseMeaning> meaning_of(const BatchNormForwardTraining::Args& a) {
  const BatchNormShape& shape = a.shape;
  const bool half = a.type == CUDNN_DATA_HALF;
  if ((a.type != CUDNN_DATA_FLOAT && !half) || a.alpha != 1.0F || a.beta != 0.0F || shape.m != a.x.dims[1] ||
      !same_layout(a.x, a.y))
    return std::nullopt;
  const auto n = static_cast<std::uint64_t>(shape.n), m = static_cast<std::uint64_t>(shape.m),
             s = static_cast<std::uint64_t>(shape.s);
  if (same_layout(a.x, packed_like(a.x))) return NormaliseMeaning{n * m, s, m, true, half, own_formula};
  // Channels innermost, all else in its order.
  if (a.x.strides[1] != 1 || merged_stride(a.x, 2) != shape.m || a.x.strides[0] != shape.m * shape.s)
    return std::nullopt;
  return NormaliseMeaning{n * s, m, m, false, half, own_formula};
}

// The statistics come from x, and y from x and the statistics.
void add_stages(const Pointers<8>& p, const BatchNormForwardTraining::Args& a, Footprint& out) {
  const auto meaning = meaning_of(a);
  // One touch each: x, scale, bias, y, the two that are saved, running ones.
  if (!meaning || p[6] == 0 || out.touches.size() != (p[4] == 0 ? 6 : 8)) return;
  enum : std::uint32_t { x, scale, bias, y, mean, inverse, running_mean, running_variance };
  const Hash statistics = Hash().add("statistics").add(*out.scalars);
  out.stages = {{statistics.value(), {x}, {mean, inverse}},
                {meaning->identity(), {x, scale, bias, mean, inverse}, {y}}};
  if (p[4] != 0) out.stages[0].writes.insert(out.stages[0].writes.end(), {running_mean, running_variance});
}

}  // namespace

void BatchNormForwardTraining::footprint(const Pointers<8>& p, const Args& a, Footprint& out) {
  const std::uint64_t bytes = parameter_bytes(a.shape);
  add_touches(out, p[0], a.x, TouchKind::read, element_bytes(a.type));
  add_touch(out, p[2], bytes, TouchKind::read);
  add_touch(out, p[3], bytes, TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta), element_bytes(a.type));
  for (int i : {6, 7}) add_touch(out, p[i], bytes, TouchKind::write);
  for (int i : {4, 5}) {
    const bool rewritten = a.factor == 1.0;
    if (p[i] != 0)
      out.touches.push_back({p[i], bytes, rewritten ? TouchKind::write : TouchKind::update,
                             rewritten ? 0 : std::bit_cast<std::uint64_t>(a.factor)});
  }
  Args others = a;
  others.factor = 0;
  detail::clear_padding(others);
  out.scalars = Hash().add_bytes(&others, sizeof others).value();
  add_stages(p, a, out);
  out.kind = "bn_fwd";
  out.flops = 7 * count_of(a.shape);
  out.bytes = static_cast<double>(element_bytes(a.type)) * count_of(a.shape) * (a.beta == 0.0F ? 3 : 4);
}

void BatchNormForwardTraining::run(const Pointers<8>& p, const Args& a) {
  if (!plain(a.shape, a.type, {&a.x, &a.y}))
    return run_as_floats<BatchNormForwardTraining>(p, a, {{0, &Args::x, false}, {1, &Args::y, true}});
  const View<const float> x(p[0], a.x, a.shape);
  const View<float> y(p[1], a.y, a.shape);
  const auto* scale = device_memory<const float>(p[2]);
  const auto* bias = device_memory<const float>(p[3]);
  const double count = static_cast<double>(a.shape.n * a.shape.s);
  in_two(a.shape.m, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      const Moments batch = moments(x, a.shape, m);
      const auto inverse = static_cast<float>(1.0 / std::sqrt(batch.variance + a.epsilon));
      normalise(x, y, a.shape, m, static_cast<float>(batch.mean), scale[m] * inverse, bias[m], a.alpha,
                a.beta);
      if (p[4]) running_average(device_memory(p[4])[m], batch.mean, a.factor);
      const double unbiased = batch.variance * (count > 1 ? count / (count - 1) : 1.0);
      if (p[5]) running_average(device_memory(p[5])[m], unbiased, a.factor);
      if (p[6]) device_memory(p[6])[m] = static_cast<float>(batch.mean);
      if (p[7]) device_memory(p[7])[m] = inverse;
    }
  });
}

void BatchNormForwardInference::footprint(const Pointers<6>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read, element_bytes(a.type));
  for (int i : {2, 3, 4, 5}) add_touch(out, p[i], parameter_bytes(a.shape), TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta), element_bytes(a.type));
  out.kind = "bn_fwd";
  out.flops = 2 * count_of(a.shape);
  out.bytes = static_cast<double>(element_bytes(a.type)) * count_of(a.shape) * (a.beta == 0.0F ? 2 : 3);
}

void BatchNormForwardInference::run(const Pointers<6>& p, const Args& a) {
  if (!plain(a.shape, a.type, {&a.x, &a.y}))
    return run_as_floats<BatchNormForwardInference>(p, a, {{0, &Args::x, false}, {1, &Args::y, true}});
  const View<const float> x(p[0], a.x, a.shape);
  const View<float> y(p[1], a.y, a.shape);
  in_two(a.shape.m, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      const double variance = device_memory<const float>(p[5])[m];
      const double slope = device_memory<const float>(p[2])[m] / std::sqrt(variance + a.epsilon);
      normalise(x, y, a.shape, m, device_memory<const float>(p[4])[m], static_cast<float>(slope),
                device_memory<const float>(p[3])[m], a.alpha, a.beta);
    }
  });
}

void BatchNormBackward::footprint(const Pointers<8>& p, const Args& a, Footprint& out) {
  const std::uint64_t bytes = parameter_bytes(a.shape);
  add_touches(out, p[0], a.x, TouchKind::read, element_bytes(a.type));
  add_touches(out, p[1], a.dy, TouchKind::read, element_bytes(a.type));
  for (int i : {3, 6, 7}) add_touch(out, p[i], bytes, TouchKind::read);
  add_touches(out, p[2], a.dx, written(a.beta_data), element_bytes(a.type));
  for (int i : {4, 5}) add_touch(out, p[i], bytes, written(a.beta_param));
  out.kind = "bn_bwd";
  out.flops = 11 * count_of(a.shape);
  out.bytes = static_cast<double>(element_bytes(a.type)) * count_of(a.shape) * (a.beta_data == 0.0F ? 5 : 6);
}

void BatchNormBackward::run(const Pointers<8>& p, const Args& a) {
  if (!plain(a.shape, a.type, {&a.x, &a.dy, &a.dx}))
    return run_as_floats<BatchNormBackward>(
        p, a, {{0, &Args::x, false}, {1, &Args::dy, false}, {2, &Args::dx, true}});
  const View<const float> x(p[0], a.x, a.shape);
  const View<const float> dy(p[1], a.dy, a.shape);
  const View<float> dx(p[2], a.dx, a.shape);
  const double count = static_cast<double>(a.shape.n * a.shape.s);
  in_two(a.shape.m, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t m = begin; m < end; ++m) {
      float mean = 0;
      float inverse = 0;
      if (p[6]) {
        mean = device_memory<const float>(p[6])[m];
        inverse = device_memory<const float>(p[7])[m];
      } else {
        const Moments batch = moments(x, a.shape, m);
        mean = static_cast<float>(batch.mean);
        inverse = static_cast<float>(1.0 / std::sqrt(batch.variance + a.epsilon));
      }
      Lanes bias_sum;
      Lanes scale_sum;
      for (std::int64_t n = 0; n < a.shape.n; ++n) {
        const float* x_row = x.row(n, m);
        const float* dy_row = dy.row(n, m);
        accumulate(bias_sum, a.shape.s, [=](std::int64_t i) { return static_cast<double>(dy_row[i]); });
        accumulate(scale_sum, a.shape.s,
                   [=](std::int64_t i) { return static_cast<double>(dy_row[i] * (x_row[i] - mean)); });
      }
      const double dbias = bias_sum.total();
      const double dscale = scale_sum.total() * inverse;
      const float slope = device_memory<const float>(p[3])[m] * inverse;
      const auto shift = static_cast<float>(dbias / count);
      const auto tilt = static_cast<float>(dscale * inverse / count);
      for (std::int64_t n = 0; n < a.shape.n; ++n) {
        const float* x_row = x.row(n, m);
        const float* dy_row = dy.row(n, m);
        blend_row(dx.row(n, m), a.shape.s, a.beta_data, [=, &a](std::int64_t i) {
          return a.alpha_data * (slope * (dy_row[i] - shift - (x_row[i] - mean) * tilt));
        });
      }
      blend(device_memory(p[4])[m], a.alpha_param * static_cast<float>(dscale), a.beta_param);
      blend(device_memory(p[5])[m], a.alpha_param * static_cast<float>(dbias), a.beta_param);
    }
  });
}

}  // namespace softgpu::cudnn
