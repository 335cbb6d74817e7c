#include "softgpu/cudnn/ops/elementwise.h"

#include <cmath>

#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/map_elements.h"

namespace softgpu::cudnn {
namespace {

bool unary(cudnnOpTensorOp_t op) {
  return op == CUDNN_OP_TENSOR_SQRT || op == CUDNN_OP_TENSOR_NOT;
}

double floats(const Layout& l) {
  return static_cast<double>(element_count(l));
}

}  // namespace

void AddTensor::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.a, TouchKind::read);
  add_touches(out, p[1], a.c, written(a.beta));
  out.flops = 2 * floats(a.c);
  out.bytes = 4 * (floats(a.a) + floats(a.c) * (a.beta == 0.0F ? 1 : 2));
}

void AddTensor::run(const Pointers<2>& p, const Args& a) {
  map_elements<1>(device_memory(p[1]), {device_memory(p[0])}, {a.c, stretched(a.a, a.c)}, a.beta,
                  [&](const Block* in, Block& result, std::int64_t count) {
                    for (std::int64_t i = 0; i < count; ++i) result[i] = a.alpha * in[0][i];
                  });
}

void OpTensor::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.a, TouchKind::read);
  if (!unary(a.op)) add_touches(out, p[1], a.b, TouchKind::read);
  add_touches(out, p[2], a.c, written(a.beta));
  out.flops = 3 * floats(a.c);
  out.bytes = 4 * (floats(a.a) + (unary(a.op) ? 0 : floats(a.b)) + floats(a.c) * (a.beta == 0.0F ? 1 : 2));
}

void OpTensor::run(const Pointers<3>& p, const Args& a) {
  const auto one = [&](auto f) {
    map_elements<1>(device_memory(p[2]), {device_memory(p[0])}, {a.c, a.a}, a.beta,
                    [&](const Block* in, Block& result, std::int64_t count) {
                      for (std::int64_t i = 0; i < count; ++i) result[i] = f(a.alpha1 * in[0][i]);
                    });
  };
  const auto two = [&](auto f) {
    map_elements<2>(device_memory(p[2]), {device_memory(p[0]), device_memory(p[1])},
                    {a.c, a.a, stretched(a.b, a.c)}, a.beta,
                    [&](const Block* in, Block& result, std::int64_t count) {
                      for (std::int64_t i = 0; i < count; ++i) {
                        result[i] = f(a.alpha1 * in[0][i], a.alpha2 * in[1][i]);
                      }
                    });
  };
  switch (a.op) {
    case CUDNN_OP_TENSOR_ADD:
      return two([](float x, float y) { return x + y; });
    case CUDNN_OP_TENSOR_MUL:
      return two([](float x, float y) { return x * y; });
    case CUDNN_OP_TENSOR_MIN:
      return two([](float x, float y) { return x < y ? x : y; });
    case CUDNN_OP_TENSOR_MAX:
      return two([](float x, float y) { return x > y ? x : y; });
    case CUDNN_OP_TENSOR_SQRT:
      return one([](float x) { return std::sqrt(x); });
    case CUDNN_OP_TENSOR_NOT:
      return one([](float x) { return 1.0F - x; });
  }
}

void ScaleTensor::footprint(const Pointers<1>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.y, TouchKind::read_write);
  out.flops = floats(a.y);
  out.bytes = 8 * floats(a.y);
}

void ScaleTensor::run(const Pointers<1>& p, const Args& a) {
  map_elements<1>(device_memory(p[0]), {device_memory(p[0])}, {a.y, a.y}, 0.0F,
                  [&](const Block* in, Block& result, std::int64_t count) {
                    for (std::int64_t i = 0; i < count; ++i) result[i] = a.alpha * in[0][i];
                  });
}

void SetTensor::footprint(const Pointers<1>& p, const Args& a, Footprint& out) {
  add_touches(out, p[0], a.y, TouchKind::write);
  out.bytes = 4 * floats(a.y);
}

void SetTensor::run(const Pointers<1>& p, const Args& a) {
  map_elements<0>(device_memory(p[0]), {}, {a.y}, 0.0F, [&](const Block*, Block& result, std::int64_t count) {
    std::fill(result, result + count, a.value);
  });
}

}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t a_desc, const void* a,
                                           const void* beta, const cudnnTensorDescriptor_t c_desc, void* c) {
  if (any_null(handle, alpha, a, beta, c)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {a_desc, c_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!broadcastable(a_desc->layout, c_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "A's dimensions are neither C's nor 1");
  }
  const AddTensor::Args args{a_desc->layout, c_desc->layout, scalar(alpha), scalar(beta)};
  return launch<AddTensor>(__func__, handle, element_count(args.c), {address(a), address(c)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnOpTensor(cudnnHandle_t handle, const cudnnOpTensorDescriptor_t op,
                                          const void* alpha1, const cudnnTensorDescriptor_t a_desc,
                                          const void* a, const void* alpha2,
                                          const cudnnTensorDescriptor_t b_desc, const void* b,
                                          const void* beta, const cudnnTensorDescriptor_t c_desc, void* c) {
  if (any_null(handle, op, alpha1, a, beta, c)) return null_argument(__func__);
  if (!op->set) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "the operation descriptor is not set");
  if (op->compute_type != CUDNN_DATA_FLOAT) return not_float(__func__);
  if (auto status = check_tensors(__func__, {a_desc, c_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!same_dims(a_desc->layout, c_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "A and C differ in shape");
  }
  OpTensor::Args args{a_desc->layout, {}, c_desc->layout, op->op, scalar(alpha1), 0.0F, scalar(beta)};
  if (!unary(op->op)) {
    if (any_null(alpha2, b)) return null_argument(__func__);
    if (auto status = check_tensors(__func__, {b_desc}); status != CUDNN_STATUS_SUCCESS) return status;
    if (!broadcastable(b_desc->layout, c_desc->layout)) {
      return fail(__func__, CUDNN_STATUS_BAD_PARAM, "B's dimensions are neither C's nor 1");
    }
    if (b == c && a != c) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "B may be C only where A is C too");
    args.b = b_desc->layout;
    args.alpha2 = scalar(alpha2);
  }
  return launch<OpTensor>(__func__, handle, element_count(args.c),
                          {address(a), unary(op->op) ? 0 : address(b), address(c)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnScaleTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t y_desc,
                                             void* y, const void* alpha) {
  if (any_null(handle, y, alpha)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  return launch<ScaleTensor>(__func__, handle, element_count(y_desc->layout), {address(y)},
                             {y_desc->layout, scalar(alpha)});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnSetTensor(cudnnHandle_t handle, const cudnnTensorDescriptor_t y_desc,
                                           void* y, const void* value) {
  if (any_null(handle, y, value)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  return launch<SetTensor>(__func__, handle, element_count(y_desc->layout), {address(y)},
                           {y_desc->layout, scalar(value)});
}

// The same as AddTensor without stretching: y = alpha * x + beta * y, whatever the two layouts.
SOFTGPU_CUDNN cudnnStatus_t cudnnTransformTensor(cudnnHandle_t handle, const void* alpha,
                                                 const cudnnTensorDescriptor_t x_desc, const void* x,
                                                 const void* beta, const cudnnTensorDescriptor_t y_desc,
                                                 void* y) {
  if (any_null(handle, alpha, x, beta, y)) return null_argument(__func__);
  if (auto status = check_tensors(__func__, {x_desc, y_desc}); status != CUDNN_STATUS_SUCCESS) return status;
  if (!same_dims(x_desc->layout, y_desc->layout)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "x and y differ in shape");
  }
  if (x == y) return fail(__func__, CUDNN_STATUS_BAD_PARAM, "x and y may not be the same memory");
  const AddTensor::Args args{x_desc->layout, y_desc->layout, scalar(alpha), scalar(beta)};
  return launch<AddTensor>(__func__, handle, element_count(args.c), {address(x), address(y)}, args);
}
