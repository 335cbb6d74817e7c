// Batch normalisation's calls, from checked arguments to launches.
#include "softgpu/cudnn/normalization/batch_norm_call.h"
#include "softgpu/cudnn/descriptors/launch.h"
#include "softgpu/cudnn/elements/element_rows.h"
#include "softgpu/cudnn/elements/element_types.h"
#include "softgpu/cudnn/normalization/batch_norm.h"
#include "softgpu/cudnn/normalization/batch_norm_relu.h"

namespace softgpu::cudnn {
namespace {

Layout derived(const Layout& x, cudnnBatchNormMode_t mode) {
  Layout l{};
  l.rank = x.rank;
  for (int d = 0; d < x.rank; ++d) {
    l.dims[d] = d == 1 || (d > 1 && mode == CUDNN_BATCHNORM_PER_ACTIVATION) ? x.dims[d] : 1;
  }
  std::int64_t stride = 1;
  for (int d = x.rank - 1; d >= 0; --d) {
    l.strides[d] = stride;
    stride *= l.dims[d];
  }
  return l;
}

bool known(cudnnBatchNormMode_t mode) {
  return mode >= CUDNN_BATCHNORM_PER_ACTIVATION && mode <= CUDNN_BATCHNORM_SPATIAL_PERSISTENT;
}

// Checks mode, shapes and types, and fills `shape`.
cudnnStatus_t check(const char* function, cudnnBatchNormMode_t mode,
                    std::initializer_list<const cudnnTensorStruct*> tensors,
                    const cudnnTensorStruct* parameters, double epsilon, BatchNormShape& shape) {
  if (!known(mode)) return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown mode");
  if (auto status = check_given(function, tensors); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(function, {parameters}); status != CUDNN_STATUS_SUCCESS) return status;
  const Layout& x = (*tensors.begin())->layout;
  const cudnnDataType_t type = (*tensors.begin())->type;
  if (x.rank != 4 && x.rank != 5)
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only 4 and 5 dimensions");
  for (const cudnnTensorStruct* tensor : tensors) {
    if (!same_dims(tensor->layout, x))
      return fail(function, CUDNN_STATUS_BAD_PARAM, "tensors differ in shape");
    if (tensor->type != type || !is_floating(type)) {
      return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "tensors of several types, or not of floating ones");
    }
  }
  if (!same_layout(parameters->layout, derived(x, mode))) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the parameters' descriptor is not the derived one");
  }
  if (epsilon < CUDNN_BN_MIN_EPSILON) return fail(function, CUDNN_STATUS_BAD_PARAM, "epsilon is too small");
  const std::int64_t m = element_count(parameters->layout);
  shape = {x.dims[0], m, element_count(x) / x.dims[0] / m};
  return CUDNN_STATUS_SUCCESS;
}

bool activates(const NormTail& tail) {
  return tail.ops != CUDNN_BATCHNORM_OPS_BN;
}
bool adds(const NormTail& tail) {
  return tail.ops == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
}

// `trains`: the reserve space is needed.
cudnnStatus_t check_tail(const char* function, const NormTail& tail, const Layout& x, float alpha, float beta,
                         cudnnDataType_t type, bool trains) {
  if (tail.ops < CUDNN_BATCHNORM_OPS_BN || tail.ops > CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown operation");
  }
  if (!activates(tail)) return CUDNN_STATUS_SUCCESS;
  if (!tail.activation) return null_argument(function);
  if (type != CUDNN_DATA_FLOAT) return not_float(function);
  if (!tail.activation->set || tail.activation->mode != CUDNN_ACTIVATION_RELU) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only CUDNN_ACTIVATION_RELU");
  }
  if (alpha != 1.0F || beta != 0.0F) {
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "with an activation alpha is 1 and beta is 0");
  }
  if (adds(tail)) {
    if (!tail.z) return null_argument(function);
    if (auto status = check_tensors(function, {tail.z_desc}); status != CUDNN_STATUS_SUCCESS) return status;
    if (!same_dims(tail.z_desc->layout, x))
      return fail(function, CUDNN_STATUS_BAD_PARAM, "z and x differ in shape");
  }
  if (trains && (!tail.reserve || tail.reserve_bytes < norm_reserve(tail.ops, x))) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "the reserve space is too small");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t activate_after(const char* function, cudnnHandle_t handle, const NormTail& tail,
                             const Layout& y_layout, void* y, void* mask) {
  const NormReluForward::Args args{y_layout, adds(tail) ? tail.z_desc->layout : Layout{}};
  return launch<NormReluForward>(function, handle, element_count(y_layout),
                                 {address(y), adds(tail) ? address(tail.z) : 0, address(mask)}, args);
}

bool one_of_pair(const void* a, const void* b) {
  return (a == nullptr) != (b == nullptr);
}

}  // namespace

std::size_t norm_workspace(cudnnBatchNormOps_t ops, const Layout& x, bool backward) {
  if (!backward || ops != CUDNN_BATCHNORM_OPS_BN_ACTIVATION) return 0;
  return sizeof(float) * static_cast<std::size_t>(element_count(x));
}

std::size_t norm_reserve(cudnnBatchNormOps_t ops, const Layout& x) {
  return ops == CUDNN_BATCHNORM_OPS_BN ? 0 : mask_bytes(element_count(x));
}

cudnnStatus_t derive_norm_descriptor(const char* function, cudnnTensorStruct* result,
                                     const cudnnTensorStruct* x, cudnnBatchNormMode_t mode) {
  if (any_null(result, x)) return null_argument(function);
  if (!known(mode) || x->layout.rank < 4) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown mode, or fewer than 4 dimensions");
  }
  result->type = x->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  result->layout = derived(x->layout, mode);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t norm_training(const char* function, cudnnHandle_t handle, const NormTraining& c) {
  if (any_null(handle, c.alpha, c.beta, c.x, c.y, c.scale, c.bias)) return null_argument(function);
  if (one_of_pair(c.running_mean, c.running_variance) || one_of_pair(c.saved_mean, c.saved_inverse)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "one of a pair of statistics is null");
  }
  BatchNormForwardTraining::Args args{};
  auto status = check(function, c.mode, {c.x_desc, c.y_desc}, c.parameter_desc, c.epsilon, args.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = c.x_desc->layout;
  args.type = c.x_desc->type;
  args.y = c.y_desc->layout;
  args.factor = c.factor;
  args.epsilon = c.epsilon;
  args.alpha = scalar(c.alpha);
  args.beta = scalar(c.beta);
  status = check_tail(function, c.tail, args.x, args.alpha, args.beta, args.type, true);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = launch<BatchNormForwardTraining>(
      function, handle, element_count(args.x),
      {address(c.x), address(c.y), address(c.scale), address(c.bias), address(c.running_mean),
       address(c.running_variance), address(c.saved_mean), address(c.saved_inverse)},
      args);
  if (status != CUDNN_STATUS_SUCCESS || !activates(c.tail)) return status;
  return activate_after(function, handle, c.tail, args.y, c.y, c.tail.reserve);
}

cudnnStatus_t norm_inference(const char* function, cudnnHandle_t handle, const NormInference& c) {
  if (any_null(handle, c.alpha, c.beta, c.x, c.y, c.scale, c.bias, c.mean, c.variance)) {
    return null_argument(function);
  }
  BatchNormForwardInference::Args args{};
  auto status = check(function, c.mode, {c.x_desc, c.y_desc}, c.parameter_desc, c.epsilon, args.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = c.x_desc->layout;
  args.type = c.x_desc->type;
  args.y = c.y_desc->layout;
  args.epsilon = c.epsilon;
  args.alpha = scalar(c.alpha);
  args.beta = scalar(c.beta);
  status = check_tail(function, c.tail, args.x, args.alpha, args.beta, args.type, false);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = launch<BatchNormForwardInference>(
      function, handle, element_count(args.x),
      {address(c.x), address(c.y), address(c.scale), address(c.bias), address(c.mean), address(c.variance)},
      args);
  if (status != CUDNN_STATUS_SUCCESS || !activates(c.tail)) return status;
  return activate_after(function, handle, c.tail, args.y, c.y, nullptr);
}

namespace {

// Launches what lies behind the normalisation; `dy` and `layout` become what that gets.
cudnnStatus_t backward_tail(const char* function, cudnnHandle_t handle, const NormTail& tail, const void*& dy,
                            Layout& layout) {
  Layout to = adds(tail) ? tail.z_desc->layout : layout;
  if (!adds(tail)) {
    if (!tail.workspace || tail.workspace_bytes < norm_workspace(tail.ops, layout, true)) {
      return fail(function, CUDNN_STATUS_BAD_PARAM, "the workspace is too small");
    }
    std::int64_t stride = 1;
    for (int d = to.rank - 1; d >= 0; --d) {
      to.strides[d] = stride;
      stride *= to.dims[d];
    }
  }
  void* const gradient = adds(tail) ? tail.z : tail.workspace;
  auto status =
      launch<NormReluBackward>(function, handle, element_count(layout),
                               {address(dy), address(gradient), address(tail.reserve)}, {layout, to});
  dy = gradient;
  layout = to;
  return status;
}

}  // namespace

cudnnStatus_t norm_backward(const char* function, cudnnHandle_t handle, const NormBackward& c) {
  if (any_null(handle, c.alpha_data, c.beta_data, c.alpha_parameter, c.beta_parameter, c.x, c.dy, c.dx,
               c.scale, c.dscale, c.dbias)) {
    return null_argument(function);
  }
  if (one_of_pair(c.saved_mean, c.saved_inverse)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "one of the saved statistics is null");
  }
  BatchNormBackward::Args args{};
  auto status =
      check(function, c.mode, {c.x_desc, c.dy_desc, c.dx_desc}, c.parameter_desc, c.epsilon, args.shape);
  if (status == CUDNN_STATUS_SUCCESS && adds(c.tail)) {
    BatchNormShape ignored{};  // dz is read as a gradient, so it has to be regular as well
    status = check(function, c.mode, {c.x_desc, c.tail.z_desc}, c.parameter_desc, c.epsilon, ignored);
  }
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = c.x_desc->layout;
  args.type = c.x_desc->type;
  args.dy = c.dy_desc->layout;
  args.dx = c.dx_desc->layout;
  args.epsilon = c.epsilon;
  args.alpha_data = scalar(c.alpha_data);
  args.beta_data = scalar(c.beta_data);
  args.alpha_param = scalar(c.alpha_parameter);
  args.beta_param = scalar(c.beta_parameter);
  status = check_tail(function, c.tail, args.x, args.alpha_data, args.beta_data, args.type, true);
  const void* dy = c.dy;
  if (status == CUDNN_STATUS_SUCCESS && activates(c.tail)) {
    status = backward_tail(function, handle, c.tail, dy, args.dy);
  }
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return launch<BatchNormBackward>(
      function, handle, element_count(args.x),
      {address(c.x), address(dy), address(c.dx), address(c.scale), address(c.dscale), address(c.dbias),
       address(c.saved_mean), address(c.saved_inverse)},
      args);
}

}  // namespace softgpu::cudnn
