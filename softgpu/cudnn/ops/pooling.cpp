// cudnnPoolingForward and cudnnPoolingBackward. The gradient of a maximum goes to the first position in scan
// order that holds it, so both maximum modes are deterministic.
#include "softgpu/cudnn/ops/pooling.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <vector>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/two_threads.h"

namespace softgpu::cudnn {
namespace {

bool is_max(cudnnPoolingMode_t mode) {
  return mode == CUDNN_POOLING_MAX || mode == CUDNN_POOLING_MAX_DETERMINISTIC;
}

// Strides of one plane over three spatial dimensions.
struct Plane {
  std::int64_t strides[3];

  explicit Plane(const Layout& l) : strides{} {
    const int missing = 3 - (l.rank - 2);
    for (int d = 2; d < l.rank; ++d) strides[missing + d - 2] = l.strides[d];
  }
  std::int64_t at(std::int64_t d, std::int64_t h, std::int64_t w) const {
    return d * strides[0] + h * strides[1] + w * strides[2];
  }
};

std::int64_t plane_offset(const Layout& l, std::int64_t plane) {
  return plane / l.dims[1] * l.strides[0] + plane % l.dims[1] * l.strides[1];
}

// The part of a window that lies inside the input.
struct Range {
  std::int64_t begin[3], end[3];

  Range(const PoolingWindow& p, const std::int64_t (&out)[3]) {
    for (int d = 0; d < 3; ++d) {
      const std::int64_t first = out[d] * p.stride[d] - p.padding[d];
      begin[d] = std::max<std::int64_t>(first, 0);
      end[d] = std::min(first + p.window[d], p.in[d]);
    }
  }
  template <class F>
  void each(F f) const {
    for (std::int64_t d = begin[0]; d < end[0]; ++d) {
      for (std::int64_t h = begin[1]; h < end[1]; ++h) {
        for (std::int64_t w = begin[2]; w < end[2]; ++w) f(d, h, w);
      }
    }
  }
  std::int64_t count() const {
    std::int64_t result = 1;
    for (int d = 0; d < 3; ++d) result *= std::max<std::int64_t>(end[d] - begin[d], 0);
    return result;
  }
};

template <class F>
void each_output(const PoolingWindow& p, F f) {
  for (std::int64_t d = 0; d < p.out[0]; ++d) {
    for (std::int64_t h = 0; h < p.out[1]; ++h) {
      for (std::int64_t w = 0; w < p.out[2]; ++w) f(d, h, w, Range(p, {d, h, w}));
    }
  }
}

float divisor(const PoolingWindow& p, const Range& range) {
  const std::int64_t count = p.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                 ? p.window[0] * p.window[1] * p.window[2]
                                 : std::max<std::int64_t>(range.count(), 1);
  return static_cast<float>(count);
}

float pooled(const PoolingWindow& p, const float* x, const Plane& plane, const Range& range) {
  if (!is_max(p.mode)) {
    float sum = 0;
    range.each([&](auto d, auto h, auto w) { sum += x[plane.at(d, h, w)]; });
    return sum / divisor(p, range);
  }
  float best = -FLT_MAX;
  range.each([&](auto d, auto h, auto w) {
    const float value = x[plane.at(d, h, w)];
    if (value > best || (p.propagate_nan && std::isnan(value))) best = value;
  });
  return best;
}

// Adds the gradient of one plane to `gradient`, a packed plane of the input's size.
void scatter(const PoolingBackward::Args& a, const float* x, const float* dy, std::vector<float>& gradient) {
  const PoolingWindow& p = a.window;
  const Plane x_plane(a.x);
  const Plane dy_plane(a.dy);
  const auto packed_at = [&](auto d, auto h, auto w) {
    return static_cast<std::size_t>((d * p.in[1] + h) * p.in[2] + w);
  };
  each_output(p, [&](auto od, auto oh, auto ow, const Range& range) {
    const float value = dy[dy_plane.at(od, oh, ow)];
    if (!is_max(p.mode)) {
      const float share = value / divisor(p, range);
      range.each([&](auto d, auto h, auto w) { gradient[packed_at(d, h, w)] += share; });
      return;
    }
    if (range.count() == 0) return;
    float best = -FLT_MAX;
    std::size_t where = packed_at(range.begin[0], range.begin[1], range.begin[2]);
    range.each([&](auto d, auto h, auto w) {
      const float candidate = x[x_plane.at(d, h, w)];
      if (candidate > best) {
        best = candidate;
        where = packed_at(d, h, w);
      }
    });
    gradient[where] += value;
  });
}

}  // namespace

void PoolingForward::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta));
  const auto x = static_cast<double>(element_count(a.x));
  const auto y = static_cast<double>(element_count(a.y));
  out.kind = "pool_fwd";
  out.flops = y * static_cast<double>(a.window.window[0] * a.window.window[1] * a.window.window[2]);
  out.bytes = 4 * (x + y * (a.beta == 0.0F ? 1 : 2));
}

void PoolingForward::run(const Pointers<2>& p, const Args& a) {
  const Plane x_plane(a.x);
  const Plane y_plane(a.y);
  in_two(a.x.dims[0] * a.x.dims[1], [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const float* x = device_memory<const float>(p[0]) + plane_offset(a.x, plane);
      float* y = device_memory(p[1]) + plane_offset(a.y, plane);
      each_output(a.window, [&](auto d, auto h, auto w, const Range& range) {
        const float value = a.alpha * pooled(a.window, x, x_plane, range);
        float& to = y[y_plane.at(d, h, w)];
        to = a.beta == 0.0F ? value : value + a.beta * to;
      });
    }
  });
}

void PoolingBackward::footprint(const Pointers<4>& p, const Args& a, Footprint& out) {
  const auto x = static_cast<double>(element_count(a.x));
  const auto y = static_cast<double>(element_count(a.y));
  if (is_max(a.window.mode)) {
    add_touches(out, p[0], a.y, TouchKind::read);
    add_touches(out, p[2], a.x, TouchKind::read);
    out.bytes = 4 * (x + y);
  }
  add_touches(out, p[1], a.dy, TouchKind::read);
  add_touches(out, p[3], a.dx, written(a.beta));
  out.kind = "pool_bwd";
  out.flops = y * static_cast<double>(a.window.window[0] * a.window.window[1] * a.window.window[2]);
  out.bytes += 4 * (y + x * (a.beta == 0.0F ? 1 : 2));
}

void PoolingBackward::run(const Pointers<4>& p, const Args& a) {
  const PoolingWindow& window = a.window;
  const Plane dx_plane(a.dx);
  in_two(a.x.dims[0] * a.x.dims[1], [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> gradient(static_cast<std::size_t>(window.in[0] * window.in[1] * window.in[2]));
    for (std::int64_t plane = begin; plane < end; ++plane) {
      std::fill(gradient.begin(), gradient.end(), 0.0F);
      scatter(a, device_memory<const float>(p[2]) + plane_offset(a.x, plane),
              device_memory<const float>(p[1]) + plane_offset(a.dy, plane), gradient);
      float* dx = device_memory(p[3]) + plane_offset(a.dx, plane);
      std::size_t from = 0;
      for (std::int64_t d = 0; d < window.in[0]; ++d) {
        for (std::int64_t h = 0; h < window.in[1]; ++h) {
          for (std::int64_t w = 0; w < window.in[2]; ++w) {
            float& to = dx[dx_plane.at(d, h, w)];
            const float value = a.alpha * gradient[from++];
            to = a.beta == 0.0F ? value : value + a.beta * to;
          }
        }
      }
    }
  });
}

namespace {

cudnnStatus_t make_window(const char* function, const cudnnPoolingStruct* pooling, const Layout& x,
                          const Layout& y, PoolingWindow& window) {
  if (!pooling) return null_argument(function);
  if (pooling->rank == 0) return fail(function, CUDNN_STATUS_BAD_PARAM, "the pooling descriptor is not set");
  if (x.rank != 4 && x.rank != 5)
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only 4 and 5 dimensions");
  if (pooling->rank != x.rank - 2 || y.rank != x.rank || y.dims[0] != x.dims[0] || y.dims[1] != x.dims[1]) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "pooling, x and y do not fit together");
  }
  window = {pooling->mode, pooling->nan == CUDNN_PROPAGATE_NAN, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0},
            {1, 1, 1}};
  const int missing = 3 - pooling->rank;
  for (int d = 0; d < pooling->rank; ++d) {
    const int to = missing + d;
    window.in[to] = x.dims[d + 2];
    window.out[to] = y.dims[d + 2];
    window.window[to] = pooling->window[d];
    window.padding[to] = pooling->padding[d];
    window.stride[to] = pooling->stride[d];
    const std::int64_t room = window.in[to] + 2 * window.padding[to] - window.window[to];
    if (room < 0 || window.out[to] != 1 + room / window.stride[to]) {
      return fail(function, CUDNN_STATUS_BAD_PARAM, "y has not the pooling's output size");
    }
  }
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnPoolingForward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                                const void* alpha, const cudnnTensorDescriptor_t x_desc,
                                                const void* x, const void* beta,
                                                const cudnnTensorDescriptor_t y_desc, void* y) {
  if (any_null(handle, alpha, x, beta, y)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {x_desc, y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  PoolingForward::Args args{x_desc->layout, y_desc->layout, {}, scalar(alpha), scalar(beta)};
  if (auto status = make_window(__func__, pooling, args.x, args.y, args.window);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  return launch<PoolingForward>(__func__, handle, element_count(args.y), {address(x), address(y)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnPoolingBackward(cudnnHandle_t handle, const cudnnPoolingDescriptor_t pooling,
                                                 const void* alpha, const cudnnTensorDescriptor_t y_desc,
                                                 const void* y, const cudnnTensorDescriptor_t dy_desc,
                                                 const void* dy, const cudnnTensorDescriptor_t x_desc,
                                                 const void* x, const void* beta,
                                                 const cudnnTensorDescriptor_t dx_desc, void* dx) {
  if (any_null(handle, alpha, y, dy, x, beta, dx)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {y_desc, dy_desc, x_desc, dx_desc});
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  PoolingBackward::Args args{y_desc->layout, dy_desc->layout, x_desc->layout, dx_desc->layout, {},
                             scalar(alpha),  scalar(beta)};
  if (!same_dims(args.y, args.dy) || !same_dims(args.x, args.dx)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "y and dy, or x and dx, differ in shape");
  }
  if (auto status = make_window(__func__, pooling, args.x, args.y, args.window);
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  return launch<PoolingBackward>(__func__, handle, element_count(args.y),
                                 {address(y), address(dy), address(x), address(dx)}, args);
}
