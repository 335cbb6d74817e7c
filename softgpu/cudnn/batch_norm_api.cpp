// cudnnBatchNormalization*.
#include "softgpu/cudnn/batch_norm.h"
#include "softgpu/cudnn/kernels.h"

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

// Checks mode, shapes and layouts, and fills `shape`. `first` is the first dimension whose values must lie in
// one run: all after N, or the spatial ones.
cudnnStatus_t check(const char* function, cudnnBatchNormMode_t mode,
                    std::initializer_list<const cudnnTensorStruct*> tensors,
                    const cudnnTensorStruct* parameters, double epsilon, BatchNormShape& shape) {
  if (!known(mode)) return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown mode");
  if (auto status = check_tensors(function, tensors); status != CUDNN_STATUS_SUCCESS) return status;
  if (auto status = check_tensors(function, {parameters}); status != CUDNN_STATUS_SUCCESS) return status;
  const bool per_activation = mode == CUDNN_BATCHNORM_PER_ACTIVATION;
  const Layout& x = (*tensors.begin())->layout;
  if (x.rank != 4 && x.rank != 5)
    return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only 4 and 5 dimensions");
  for (const cudnnTensorStruct* tensor : tensors) {
    if (!same_dims(tensor->layout, x))
      return fail(function, CUDNN_STATUS_BAD_PARAM, "tensors differ in shape");
    if (merged_stride(tensor->layout, per_activation ? 1 : 2) != 1) {
      return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only layouts with contiguous images (NCHW)");
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

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t result,
                                                          const cudnnTensorDescriptor_t x_desc,
                                                          cudnnBatchNormMode_t mode) {
  if (any_null(result, x_desc)) return null_argument(__func__);
  if (!known(mode) || x_desc->layout.rank < 4) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "unknown mode, or fewer than 4 dimensions");
  }
  result->type = x_desc->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  result->layout = derived(x_desc->layout, mode);
  return CUDNN_STATUS_SUCCESS;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t y_desc, void* y,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean, void* saved_inverse) {
  if (any_null(handle, alpha, beta, x, y, scale, bias)) return null_argument(__func__);
  if ((running_mean == nullptr) != (running_variance == nullptr) ||
      (saved_mean == nullptr) != (saved_inverse == nullptr)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "one of a pair of statistics is null");
  }
  BatchNormForwardTraining::Args args{};
  auto status = check(__func__, mode, {x_desc, y_desc}, parameter_desc, epsilon, args.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = x_desc->layout;
  args.y = y_desc->layout;
  args.factor = factor;
  args.epsilon = epsilon;
  args.alpha = scalar(alpha);
  args.beta = scalar(beta);
  return launch<BatchNormForwardTraining>(
      __func__, handle, element_count(args.x),
      {address(x), address(y), address(scale), address(bias), address(running_mean),
       address(running_variance), address(saved_mean), address(saved_inverse)},
      args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t y_desc, void* y,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, const void* bias, const void* mean,
    const void* variance, double epsilon) {
  if (any_null(handle, alpha, beta, x, y, scale, bias, mean, variance)) return null_argument(__func__);
  BatchNormForwardInference::Args args{};
  auto status = check(__func__, mode, {x_desc, y_desc}, parameter_desc, epsilon, args.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = x_desc->layout;
  args.y = y_desc->layout;
  args.epsilon = epsilon;
  args.alpha = scalar(alpha);
  args.beta = scalar(beta);
  return launch<BatchNormForwardInference>(
      __func__, handle, element_count(args.x),
      {address(x), address(y), address(scale), address(bias), address(mean), address(variance)}, args);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_param, const void* beta_param, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t dx_desc, void* dx,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, void* dscale, void* dbias,
    double epsilon, const void* saved_mean, const void* saved_inverse) {
  if (any_null(handle, alpha_data, beta_data, alpha_param, beta_param, x, dy, dx, scale, dscale, dbias)) {
    return null_argument(__func__);
  }
  if ((saved_mean == nullptr) != (saved_inverse == nullptr)) {
    return fail(__func__, CUDNN_STATUS_BAD_PARAM, "one of the saved statistics is null");
  }
  BatchNormBackward::Args args{};
  auto status = check(__func__, mode, {x_desc, dy_desc, dx_desc}, parameter_desc, epsilon, args.shape);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  args.x = x_desc->layout;
  args.dy = dy_desc->layout;
  args.dx = dx_desc->layout;
  args.epsilon = epsilon;
  args.alpha_data = scalar(alpha_data);
  args.beta_data = scalar(beta_data);
  args.alpha_param = scalar(alpha_param);
  args.beta_param = scalar(beta_param);
  return launch<BatchNormBackward>(__func__, handle, element_count(args.x),
                                   {address(x), address(dy), address(dx), address(scale), address(dscale),
                                    address(dbias), address(saved_mean), address(saved_inverse)},
                                   args);
}
