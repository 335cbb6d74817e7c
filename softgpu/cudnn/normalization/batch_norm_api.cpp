// cudnnBatchNormalization* and their Ex forms.
#include "softgpu/cudnn/normalization/batch_norm_call.h"

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnDeriveBNTensorDescriptor(cudnnTensorDescriptor_t result,
                                                          const cudnnTensorDescriptor_t x_desc,
                                                          cudnnBatchNormMode_t mode) {
  return derive_norm_descriptor(__func__, result, x_desc, mode);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t y_desc, void* y,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean, void* saved_inverse) {
  return norm_training(__func__, handle,
                       {mode,
                        alpha,
                        beta,
                        x_desc,
                        x,
                        y_desc,
                        y,
                        parameter_desc,
                        scale,
                        bias,
                        factor,
                        running_mean,
                        running_variance,
                        epsilon,
                        saved_mean,
                        saved_inverse,
                        {}});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationForwardInference(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t y_desc, void* y,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, const void* bias, const void* mean,
    const void* variance, double epsilon) {
  return norm_inference(
      __func__, handle,
      {mode, alpha, beta, x_desc, x, y_desc, y, parameter_desc, scale, bias, mean, variance, epsilon, {}});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationBackward(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, const void* alpha_data, const void* beta_data,
    const void* alpha_param, const void* beta_param, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t dx_desc, void* dx,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, void* dscale, void* dbias,
    double epsilon, const void* saved_mean, const void* saved_inverse) {
  return norm_backward(__func__, handle,
                       {mode,
                        alpha_data,
                        beta_data,
                        alpha_param,
                        beta_param,
                        x_desc,
                        x,
                        dy_desc,
                        dy,
                        dx_desc,
                        dx,
                        parameter_desc,
                        scale,
                        dscale,
                        dbias,
                        epsilon,
                        saved_mean,
                        saved_inverse,
                        {}});
}

// --- Ex

namespace {

cudnnStatus_t sized(const char* function, cudnnHandle_t handle, const cudnnTensorStruct* x,
                    std::size_t* bytes, std::size_t value) {
  if (any_null(handle, x, bytes)) return null_argument(function);
  *bytes = value;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

SOFTGPU_CUDNN cudnnStatus_t cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x_desc,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, std::size_t* bytes) {
  return sized(__func__, handle, x_desc, bytes, x_desc ? norm_workspace(ops, x_desc->layout, false) : 0);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetBatchNormalizationBackwardExWorkspaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops, const cudnnTensorDescriptor_t x_desc,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t,
    std::size_t* bytes) {
  return sized(__func__, handle, x_desc, bytes, x_desc ? norm_workspace(ops, x_desc->layout, true) : 0);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    cudnnHandle_t handle, cudnnBatchNormMode_t, cudnnBatchNormOps_t ops, const cudnnActivationDescriptor_t,
    const cudnnTensorDescriptor_t x_desc, std::size_t* bytes) {
  return sized(__func__, handle, x_desc, bytes, x_desc ? norm_reserve(ops, x_desc->layout) : 0);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationForwardTrainingEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void* alpha,
    const void* beta, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t z_desc, const void* z, const cudnnTensorDescriptor_t y_desc, void* y,
    const cudnnTensorDescriptor_t parameter_desc, const void* scale, const void* bias, double factor,
    void* running_mean, void* running_variance, double epsilon, void* saved_mean, void* saved_inverse,
    cudnnActivationDescriptor_t activation, void* workspace, std::size_t workspace_bytes, void* reserve,
    std::size_t reserve_bytes) {
  const NormTail tail{ops,       activation,      z_desc,  const_cast<void*>(z),
                      workspace, workspace_bytes, reserve, reserve_bytes};
  return norm_training(__func__, handle,
                       {mode, alpha, beta, x_desc, x, y_desc, y, parameter_desc, scale, bias, factor,
                        running_mean, running_variance, epsilon, saved_mean, saved_inverse, tail});
}

// The gradient through the ReLU comes from the reserve space, so y is not read.
SOFTGPU_CUDNN cudnnStatus_t cudnnBatchNormalizationBackwardEx(
    cudnnHandle_t handle, cudnnBatchNormMode_t mode, cudnnBatchNormOps_t ops, const void* alpha_data,
    const void* beta_data, const void* alpha_param, const void* beta_param,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t dz_desc, void* dz,
    const cudnnTensorDescriptor_t dx_desc, void* dx, const cudnnTensorDescriptor_t parameter_desc,
    const void* scale, const void*, void* dscale, void* dbias, double epsilon, const void* saved_mean,
    const void* saved_inverse, cudnnActivationDescriptor_t activation, void* workspace,
    std::size_t workspace_bytes, void* reserve, std::size_t reserve_bytes) {
  const NormTail tail{ops, activation, dz_desc, dz, workspace, workspace_bytes, reserve, reserve_bytes};
  return norm_backward(__func__, handle,
                       {mode, alpha_data, beta_data, alpha_param, beta_param, x_desc, x, dy_desc, dy, dx_desc,
                        dx, parameter_desc, scale, dscale, dbias, epsilon, saved_mean, saved_inverse, tail});
}
