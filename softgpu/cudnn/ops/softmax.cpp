// cudnnSoftmaxForward and cudnnSoftmaxBackward.
#include "softgpu/cudnn/ops/softmax.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "softgpu/cudnn/descriptors/launch.h"

namespace softgpu::cudnn {
namespace {

std::vector<float> gather(std::uint64_t address, const SoftmaxShape& shape, const SoftmaxStrides& s,
                          std::int64_t position) {
  const float* from = device_memory<const float>(address) + position / shape.inner * s.image +
                      position % shape.inner * s.inner;
  std::vector<float> values(static_cast<std::size_t>(shape.length));
  for (std::int64_t i = 0; i < shape.length; ++i) values[static_cast<std::size_t>(i)] = from[i * s.axis];
  return values;
}

void scatter(std::uint64_t address, const SoftmaxShape& shape, const SoftmaxStrides& s, std::int64_t position,
             const std::vector<float>& values, float alpha, float beta) {
  float* to = device_memory(address) + position / shape.inner * s.image + position % shape.inner * s.inner;
  for (std::int64_t i = 0; i < shape.length; ++i) {
    const float value = alpha * values[static_cast<std::size_t>(i)];
    float& out = to[i * s.axis];
    out = beta == 0.0F ? value : value + beta * out;
  }
}

void softmax(cudnnSoftmaxAlgorithm_t algorithm, std::vector<float>& values) {
  const float largest =
      algorithm == CUDNN_SOFTMAX_FAST ? 0.0F : *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (float v : values) sum += std::exp(v - largest);
  if (algorithm == CUDNN_SOFTMAX_LOG) {
    const auto shift = static_cast<float>(std::log(sum));
    for (float& v : values) v = v - largest - shift;
  } else {
    const auto scale = static_cast<float>(1.0 / sum);
    for (float& v : values) v = std::exp(v - largest) * scale;
  }
}

// dy becomes dx.
void softmax_gradient(cudnnSoftmaxAlgorithm_t algorithm, const std::vector<float>& y,
                      std::vector<float>& dy) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += algorithm == CUDNN_SOFTMAX_LOG ? static_cast<double>(dy[i]) : static_cast<double>(dy[i] * y[i]);
  }
  const auto total = static_cast<float>(sum);
  for (std::size_t i = 0; i < y.size(); ++i) {
    dy[i] = algorithm == CUDNN_SOFTMAX_LOG ? dy[i] - std::exp(y[i]) * total : y[i] * (dy[i] - total);
  }
}

}  // namespace

void SoftmaxForward::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.x, TouchKind::read);
  add_touches(out, p[1], a.y, written(a.beta));
  const auto count = static_cast<double>(element_count(a.x));
  out.kind = "softmax_fwd";
  out.flops = 5 * count;
  out.bytes = 4 * count * (a.beta == 0.0F ? 2 : 3);
}

void SoftmaxForward::run(const Pointers<2>& p, const Args& a) {
  for (std::int64_t position = 0; position < a.shape.images * a.shape.inner; ++position) {
    std::vector<float> values = gather(p[0], a.shape, a.x_strides, position);
    softmax(a.algorithm, values);
    scatter(p[1], a.shape, a.y_strides, position, values, a.alpha, a.beta);
  }
}

void SoftmaxBackward::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.y, TouchKind::read);
  add_touches(out, p[1], a.dy, TouchKind::read);
  add_touches(out, p[2], a.dx, written(a.beta));
  const auto count = static_cast<double>(element_count(a.y));
  out.kind = "softmax_bwd";
  out.flops = 4 * count;
  out.bytes = 4 * count * (a.beta == 0.0F ? 3 : 4);
}

void SoftmaxBackward::run(const Pointers<3>& p, const Args& a) {
  for (std::int64_t position = 0; position < a.shape.images * a.shape.inner; ++position) {
    const std::vector<float> y = gather(p[0], a.shape, a.y_strides, position);
    std::vector<float> gradient = gather(p[1], a.shape, a.dy_strides, position);
    softmax_gradient(a.algorithm, y, gradient);
    scatter(p[2], a.shape, a.dx_strides, position, gradient, a.alpha, a.beta);
  }
}

namespace {

cudnnStatus_t check_kind(const char* function, cudnnSoftmaxAlgorithm_t algorithm, cudnnSoftmaxMode_t mode) {
  if (algorithm < CUDNN_SOFTMAX_FAST || algorithm > CUDNN_SOFTMAX_LOG || mode < CUDNN_SOFTMAX_MODE_INSTANCE ||
      mode > CUDNN_SOFTMAX_MODE_CHANNEL) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown algorithm or mode");
  }
  return CUDNN_STATUS_SUCCESS;
}

SoftmaxShape shape_of(const Layout& l, cudnnSoftmaxMode_t mode) {
  const std::int64_t per_image = element_count(l) / l.dims[0];
  if (mode == CUDNN_SOFTMAX_MODE_INSTANCE) return {l.dims[0], per_image, 1};
  return {l.dims[0], l.dims[1], per_image / l.dims[1]};
}

cudnnStatus_t find_strides(const char* function, const Layout& l, cudnnSoftmaxMode_t mode,
                           SoftmaxStrides& out) {
  const bool channel = mode == CUDNN_SOFTMAX_MODE_CHANNEL;
  const std::int64_t merged = merged_stride(l, channel ? 2 : 1);
  if (l.rank < 2 || merged == 0) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "a tensor's values per image lie in no regular order");
  }
  out =
      channel ? SoftmaxStrides{l.strides[0], l.strides[1], merged} : SoftmaxStrides{l.strides[0], merged, 0};
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnSoftmaxForward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                                cudnnSoftmaxMode_t mode, const void* alpha,
                                                const cudnnTensorDescriptor_t x_desc, const void* x,
                                                const void* beta, const cudnnTensorDescriptor_t y_desc,
                                                void* y) {
  if (any_null(handle, alpha, x, beta, y)) return null_argument(__func__);
  if (auto status = check_kind(__func__, algorithm, mode); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(__func__, {x_desc, y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  SoftmaxForward::Args args{x_desc->layout, y_desc->layout, shape_of(x_desc->layout, mode), {}, {}, algorithm,
                            scalar(alpha),  scalar(beta)};
  if (!same_dims(args.x, args.y)) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "x and y differ in shape");
  auto status = find_strides(__func__, args.x, mode, args.x_strides);
  if (status == CUDNN_STATUS_SUCCESS) status = find_strides(__func__, args.y, mode, args.y_strides);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return launch<SoftmaxForward>(__func__, handle, element_count(args.x), {address(x), address(y)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSoftmaxBackward(cudnnHandle_t handle, cudnnSoftmaxAlgorithm_t algorithm,
                                                 cudnnSoftmaxMode_t mode, const void* alpha,
                                                 const cudnnTensorDescriptor_t y_desc, const void* y,
                                                 const cudnnTensorDescriptor_t dy_desc, const void* dy,
                                                 const void* beta, const cudnnTensorDescriptor_t dx_desc,
                                                 void* dx) {
  if (any_null(handle, alpha, y, dy, beta, dx)) return null_argument(__func__);
  if (auto status = check_kind(__func__, algorithm, mode); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(__func__, {y_desc, dy_desc, dx_desc}); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  SoftmaxBackward::Args args{
      y_desc->layout, dy_desc->layout, dx_desc->layout, shape_of(y_desc->layout, mode), {}, {}, {},
      algorithm,      scalar(alpha),   scalar(beta)};
  if (!same_dims(args.y, args.dy) || !same_dims(args.y, args.dx)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "y, dy and dx differ in shape");
  }
  auto status = find_strides(__func__, args.y, mode, args.y_strides);
  if (status == CUDNN_STATUS_SUCCESS) status = find_strides(__func__, args.dy, mode, args.dy_strides);
  if (status == CUDNN_STATUS_SUCCESS) status = find_strides(__func__, args.dx, mode, args.dx_strides);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return launch<SoftmaxBackward>(__func__, handle, element_count(args.y),
                                 {address(y), address(dy), address(dx)}, args);
}
