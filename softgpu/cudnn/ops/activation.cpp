// cudnnActivationForward and cudnnActivationBackward.
#include "softgpu/cudnn/ops/activation.h"

#include <cmath>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/map_elements.h"
#include "softgpu/meaning.h"

namespace softgpu::cudnn {
namespace {

// ReLU keeps NaN only where asked to: every comparison with NaN is false.
float relu(float x, bool propagate_nan) {
  return propagate_nan ? (x <= 0.0F ? 0.0F : x) : (x > 0.0F ? x : 0.0F);
}

template <class F>
void each(float* values, std::int64_t count, F f) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = f(values[i]);
}

// dx = alpha * dy * slope(y)
template <class Slope>
auto backward_with(float alpha, Slope slope) {
  return [=](const Block* in, Block& result, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) result[i] = alpha * slope(in[0][i], in[1][i]);
  };
}

}  // namespace

void activate(const Activation& a, float* values, std::int64_t count) {
  const float c = a.coefficient;
  switch (a.mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return each(values, count, [](float x) { return 1.0F / (1.0F + std::exp(-x)); });
    case CUDNN_ACTIVATION_RELU:
      if (a.propagate_nan) return each(values, count, [](float x) { return relu(x, true); });
      return each(values, count, [](float x) { return relu(x, false); });
    case CUDNN_ACTIVATION_TANH:
      return each(values, count, [](float x) { return std::tanh(x); });
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return each(values, count, [&](float x) {
        const float positive = relu(x, a.propagate_nan);
        return positive > c ? c : positive;
      });
    case CUDNN_ACTIVATION_ELU:
      return each(values, count, [c](float x) { return x > 0.0F ? x : c * std::expm1(x); });
    default:  // identity
      return;
  }
}

void ActivationForward::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta));
  const double count = static_cast<double>(element_count(a.y));
  const bool clips = a.activation.mode == CUDNN_ACTIVATION_RELU && a.alpha == 1.0F && a.beta == 0.0F &&
                     out.touches.size() == 2 && same_layout(a.x, a.y);
  if (clips)
    out.stages = {{clip_identity(static_cast<std::uint64_t>(element_count(a.y)), sizeof(float),
                                 a.activation.propagate_nan),
                   {0},
                   {1}}};
  out.kind = "activation_fwd";
  out.flops = count;
  out.bytes = 4 * count * (a.beta == 0.0F ? 2 : 3);
}

void ActivationForward::run(const Pointers<2>& p, const Args& a) {
  map_elements<1>(device_memory(p[1]), {device_memory(p[0])}, {a.y, a.x}, a.beta,
                  [&](const Block* in, Block& result, std::int64_t count) {
                    std::memcpy(result, in[0], sizeof(float) * static_cast<std::size_t>(count));
                    activate(a.activation, result, count);
                    if (a.alpha != 1.0F) each(result, count, [&](float v) { return a.alpha * v; });
                  });
}

void ActivationBackward::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  const bool reads_y = a.activation.mode != CUDNN_ACTIVATION_IDENTITY;
  if (reads_y) add_touches(out, p[0], a.y, TouchKind::read);
  add_touches(out, p[1], a.dy, TouchKind::read);
  add_touches(out, p[2], a.dx, written(a.beta));
  const double count = static_cast<double>(element_count(a.dx));
  out.kind = "activation_bwd";
  out.flops = count;
  out.bytes = 4 * count * (2 + (reads_y ? 1 : 0) + (a.beta == 0.0F ? 0 : 1));
}

void ActivationBackward::run(const Pointers<3>& p, const Args& a) {
  const auto map = [&](auto slope) {
    if (a.activation.mode == CUDNN_ACTIVATION_IDENTITY) {  // y may be gone
      const auto op = [&](const Block* in, Block& result, std::int64_t count) {
        for (std::int64_t i = 0; i < count; ++i) result[i] = a.alpha * in[0][i];
      };
      map_elements<1>(device_memory(p[2]), {device_memory(p[1])}, {a.dx, a.dy}, a.beta, op);
      return;
    }
    map_elements<2>(device_memory(p[2]), {device_memory(p[0]), device_memory(p[1])}, {a.dx, a.y, a.dy},
                    a.beta, backward_with(a.alpha, slope));
  };
  const float c = a.activation.coefficient;
  switch (a.activation.mode) {
    case CUDNN_ACTIVATION_SIGMOID:
      return map([](float y, float dy) { return dy * y * (1.0F - y); });
    case CUDNN_ACTIVATION_RELU:
      return map([](float y, float dy) { return y > 0.0F ? dy : 0.0F; });
    case CUDNN_ACTIVATION_TANH:
      return map([](float y, float dy) { return dy * (1.0F - y * y); });
    case CUDNN_ACTIVATION_CLIPPED_RELU:
      return map([c](float y, float dy) { return y > 0.0F && y < c ? dy : 0.0F; });
    case CUDNN_ACTIVATION_ELU:
      return map([c](float y, float dy) { return y > 0.0F ? dy : dy * (y + c); });
    default:
      return map([](float, float dy) { return dy; });
  }
}

namespace {

cudnnStatus_t check_activation(const char* function, const cudnnActivationStruct* activation) {
  if (!activation) return null_argument(function);
  if (!activation->set) return fail(function, CUDNN_STATUS_BAD_PARAM, "the activation descriptor is not set");
  if (activation->mode == CUDNN_ACTIVATION_SWISH) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "CUDNN_ACTIVATION_SWISH");
  }
  return CUDNN_STATUS_SUCCESS;
}

Activation by_value(const cudnnActivationStruct& a) {
  return {a.mode, a.nan == CUDNN_PROPAGATE_NAN, static_cast<float>(a.coefficient)};
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnActivationForward(cudnnHandle_t handle,
                                                   cudnnActivationDescriptor_t activation, const void* alpha,
                                                   const cudnnTensorDescriptor_t x_desc, const void* x,
                                                   const void* beta, const cudnnTensorDescriptor_t y_desc,
                                                   void* y) {
  if (any_null(handle, alpha, x, beta, y)) return null_argument(__func__);
  if (auto status = check_activation(__func__, activation); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(__func__, {x_desc, y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!same_dims(x_desc->layout, y_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "x and y differ in shape");
  }
  if (x == y && !same_layout(x_desc->layout, y_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "in place needs equal descriptors");
  }
  const ActivationForward::Args args{x_desc->layout, y_desc->layout, by_value(*activation), scalar(alpha),
                                     scalar(beta)};
  return launch<ActivationForward>(__func__, handle, element_count(args.y), {address(x), address(y)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnActivationBackward(cudnnHandle_t handle,
                                                    cudnnActivationDescriptor_t activation, const void* alpha,
                                                    const cudnnTensorDescriptor_t y_desc, const void* y,
                                                    const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                                    const cudnnTensorDescriptor_t x_desc, const void* x,
                                                    const void* beta, const cudnnTensorDescriptor_t dx_desc,
                                                    void* dx) {
  if (any_null(handle, alpha, y, dy, x, beta, dx)) return null_argument(__func__);
  if (auto status = check_activation(__func__, activation); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(__func__, {y_desc, dy_desc, x_desc, dx_desc});
      status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const Layout& shape = dx_desc->layout;
  if (!same_dims(y_desc->layout, shape) || !same_dims(dy_desc->layout, shape) ||
      !same_dims(x_desc->layout, shape)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "y, dy, x and dx differ in shape");
  }
  if (dy == dx && !same_layout(dy_desc->layout, shape)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "in place needs equal descriptors");
  }
  const ActivationBackward::Args args{y_desc->layout,        dy_desc->layout, shape,
                                      by_value(*activation), scalar(alpha),   scalar(beta)};
  return launch<ActivationBackward>(__func__, handle, element_count(shape),
                                    {address(y), address(dy), address(dx)}, args);
}
