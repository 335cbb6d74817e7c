// cudnnLRNCrossChannelForward and cudnnLRNCrossChannelBackward, and their descriptor.
#include "softgpu/cudnn/ops/lrn.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/two_threads.h"

namespace softgpu::cudnn {
namespace {

// All channels of up to `width` neighbouring positions of one image, channel by channel.
constexpr std::int64_t width = 64;
using Columns = std::vector<double>;

struct Place {
  std::int64_t image, first, count;  // positions [first, first + count) of an image
};

std::int64_t positions(const Layout& l) {
  return element_count(l) / (l.dims[0] * l.dims[1]);
}

// f(place) for every block of positions.
template <class F>
void each_place(const Layout& l, F f) {
  const std::int64_t all = positions(l);
  const std::int64_t blocks = (all + width - 1) / width;
  in_two(l.dims[0] * blocks, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b % blocks * width;
      f(Place{b / blocks, first, std::min(width, all - first)});
    }
  });
}

Columns load(std::uint64_t address, const Layout& l, const Place& at) {
  Columns values(static_cast<std::size_t>(l.dims[1] * width));
  const std::int64_t step = merged_stride(l, 2);
  for (std::int64_t c = 0; c < l.dims[1]; ++c) {
    const float* from =
        device_memory<const float>(address) + at.image * l.strides[0] + c * l.strides[1] + at.first * step;
    for (std::int64_t i = 0; i < at.count; ++i)
      values[static_cast<std::size_t>(c * width + i)] = static_cast<double>(from[i * step]);
  }
  return values;
}

void store(std::uint64_t address, const Layout& l, const Place& at, const Columns& values, float alpha,
           float beta) {
  const std::int64_t step = merged_stride(l, 2);
  for (std::int64_t c = 0; c < l.dims[1]; ++c) {
    float* to = device_memory(address) + at.image * l.strides[0] + c * l.strides[1] + at.first * step;
    for (std::int64_t i = 0; i < at.count; ++i) {
      const float value = alpha * static_cast<float>(values[static_cast<std::size_t>(c * width + i)]);
      float& out = to[i * step];
      out = beta == 0.0F ? value : value + beta * out;
    }
  }
}

// Per channel, the sum over channels [c - before, c + after].
Columns window_sums(const Columns& values, std::int64_t channels, std::int64_t before, std::int64_t after) {
  Columns sums(values.size());
  for (std::int64_t c = 0; c < channels; ++c) {
    const std::int64_t last = std::min(c + after, channels - 1);
    for (std::int64_t from = std::max<std::int64_t>(c - before, 0); from <= last; ++from) {
      for (std::int64_t i = 0; i < width; ++i)
        sums[static_cast<std::size_t>(c * width + i)] += values[static_cast<std::size_t>(from * width + i)];
    }
  }
  return sums;
}

std::int64_t look_behind(const LrnWindow& w) {
  return (w.n - 1) / 2;
}
std::int64_t look_ahead(const LrnWindow& w) {
  return w.n - look_behind(w) - 1;
}

// s of every element.
Columns scales(const Columns& x, std::int64_t channels, const LrnWindow& w) {
  Columns squares(x.size());
  std::transform(x.begin(), x.end(), squares.begin(), [](double v) { return v * v; });
  Columns sums = window_sums(squares, channels, look_behind(w), look_ahead(w));
  const double share = w.alpha / static_cast<double>(w.n);
  for (double& s : sums) s = w.k + share * s;
  return sums;
}

double arithmetic(const Layout& l, const LrnWindow& w, double per_element) {
  return static_cast<double>(element_count(l)) * (per_element + static_cast<double>(w.n));
}

}  // namespace

void LrnForward::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta));
  out.kind = "lrn_fwd";
  out.flops = arithmetic(a.x, a.window, 6);
  out.bytes = 4 * static_cast<double>(element_count(a.x)) * (a.beta == 0.0F ? 2 : 3);
}

void LrnForward::run(const Pointers<2>& p, const Args& a) {
  each_place(a.x, [&](const Place& at) {
    Columns x = load(p[0], a.x, at);
    const Columns s = scales(x, a.x.dims[1], a.window);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] *= std::pow(s[i], -a.window.beta);
    store(p[1], a.y, at, x, a.alpha, a.beta);
  });
}

void LrnBackward::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.y, TouchKind::read);
  add_touches(out, p[1], a.dy, TouchKind::read);
  add_touches(out, p[2], a.x, TouchKind::read);
  add_touches(out, p[3], a.dx, written(a.beta));
  out.kind = "lrn_bwd";
  out.flops = arithmetic(a.x, a.window, 12 + static_cast<double>(a.window.n));
  out.bytes = 4 * static_cast<double>(element_count(a.x)) * (a.beta == 0.0F ? 4 : 5);
}

// dx = dy * s^-b - 2 a b / n * x * (sum of dy * y / s over the channels whose window holds this one).
void LrnBackward::run(const Pointers<4>& p, const Args& a) {
  const LrnWindow& w = a.window;
  const double factor = 2 * w.alpha * w.beta / static_cast<double>(w.n);
  each_place(a.x, [&](const Place& at) {
    const Columns x = load(p[2], a.x, at);
    const Columns y = load(p[0], a.y, at);
    Columns dx = load(p[1], a.dy, at);
    const Columns s = scales(x, a.x.dims[1], w);
    Columns shares(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) shares[i] = dx[i] * y[i] / s[i];
    const Columns sums = window_sums(shares, a.x.dims[1], look_ahead(w), look_behind(w));
    for (std::size_t i = 0; i < x.size(); ++i)
      dx[i] = dx[i] * std::pow(s[i], -w.beta) - factor * x[i] * sums[i];
    store(p[3], a.dx, at, dx, a.alpha, a.beta);
  });
}

namespace {

cudnnStatus_t check_lrn(const char* function, const cudnnLRNStruct* lrn, cudnnLRNMode_t mode,
                        std::initializer_list<const cudnnTensorStruct*> tensors) {
  if (!lrn) return null_argument(function);
  if (mode != CUDNN_LRN_CROSS_CHANNEL_DIM1) return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown mode");
  if (auto status = check_tensors(function, tensors); status != CUDNN_STATUS_SUCCESS) return status;
  const Layout& first = (*tensors.begin())->layout;
  if (first.rank < 3) return fail(function, CUDNN_STATUS_BAD_PARAM, "fewer than 3 dimensions");
  for (const cudnnTensorStruct* tensor : tensors) {
    if (!same_dims(tensor->layout, first))
      return fail(function, CUDNN_STATUS_BAD_PARAM, "tensors differ in shape");
    if (merged_stride(tensor->layout, 2) == 0) {
      return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "a tensor's positions lie in no regular order");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

LrnWindow by_value(const cudnnLRNStruct& lrn) {
  return {lrn.n, lrn.alpha, lrn.beta, lrn.k};
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnCreateLRNDescriptor(cudnnLRNDescriptor_t* lrn) {
  return create_descriptor(__func__, lrn);
}
SOFTGPU_CUDNN cudnnStatus_t cudnnDestroyLRNDescriptor(cudnnLRNDescriptor_t lrn) {
  delete lrn;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetLRNDescriptor(cudnnLRNDescriptor_t lrn, unsigned n, double alpha,
                                                  double beta, double k) {
  if (!lrn) return null_argument(__func__);
  if (n < CUDNN_LRN_MIN_N || n > CUDNN_LRN_MAX_N || k < CUDNN_LRN_MIN_K || beta < CUDNN_LRN_MIN_BETA) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "n is not in 1 to 16, or k or beta is too small");
  }
  *lrn = {static_cast<int>(n), alpha, beta, k};
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetLRNDescriptor(cudnnLRNDescriptor_t lrn, unsigned* n, double* alpha,
                                                  double* beta, double* k) {
  if (!lrn) return null_argument(__func__);
  if (n) *n = static_cast<unsigned>(lrn->n);
  if (alpha) *alpha = lrn->alpha;
  if (beta) *beta = lrn->beta;
  if (k) *k = lrn->k;
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnLRNCrossChannelForward(cudnnHandle_t handle, cudnnLRNDescriptor_t lrn,
                                                        cudnnLRNMode_t mode, const void* alpha,
                                                        const cudnnTensorDescriptor_t x_desc, const void* x,
                                                        const void* beta,
                                                        const cudnnTensorDescriptor_t y_desc, void* y) {
  if (any_null(handle, alpha, x, beta, y)) return null_argument(__func__);
  if (auto status = check_lrn(__func__, lrn, mode, {x_desc, y_desc}); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const LrnForward::Args args{x_desc->layout, y_desc->layout, by_value(*lrn), scalar(alpha), scalar(beta)};
  return launch<LrnForward>(__func__, handle, element_count(args.x), {address(x), address(y)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnLRNCrossChannelBackward(cudnnHandle_t handle, cudnnLRNDescriptor_t lrn,
                                                         cudnnLRNMode_t mode, const void* alpha,
                                                         const cudnnTensorDescriptor_t y_desc, const void* y,
                                                         const cudnnTensorDescriptor_t dy_desc,
                                                         const void* dy, const cudnnTensorDescriptor_t x_desc,
                                                         const void* x, const void* beta,
                                                         const cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (any_null(handle, alpha, y, dy, x, beta, dx)) return null_argument(__func__);
  if (auto status = check_lrn(__func__, lrn, mode, {y_desc, dy_desc, x_desc, dx_desc});
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const LrnBackward::Args args{y_desc->layout, dy_desc->layout, x_desc->layout, dx_desc->layout,
                               by_value(*lrn), scalar(alpha),   scalar(beta)};
  return launch<LrnBackward>(__func__, handle, element_count(args.x),
                             {address(y), address(dy), address(x), address(dx)}, args);
}
