// cudnnNormalization*: batch normalisation under another face. One group only, as the real library.
#include "softgpu/cudnn/normalization/batch_norm_call.h"

namespace softgpu::cudnn {
namespace {

cudnnStatus_t translate(const char* function, cudnnNormMode_t mode, cudnnNormAlgo_t algorithm, int groups,
                        cudnnBatchNormMode_t& result) {
  if (mode != CUDNN_NORM_PER_ACTIVATION && mode != CUDNN_NORM_PER_CHANNEL) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "unknown mode");
  }
  if (groups != 1) return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the group count is not 1");
  if (mode == CUDNN_NORM_PER_ACTIVATION) {
    result = CUDNN_BATCHNORM_PER_ACTIVATION;
  } else {
    result =
        algorithm == CUDNN_NORM_ALGO_PERSIST ? CUDNN_BATCHNORM_SPATIAL_PERSISTENT : CUDNN_BATCHNORM_SPATIAL;
  }
  return CUDNN_STATUS_SUCCESS;
}

// The two enumerations agree, and so does what is refused as unknown.
cudnnBatchNormOps_t translate(cudnnNormOps_t ops) {
  static_assert(int{CUDNN_NORM_OPS_NORM} == int{CUDNN_BATCHNORM_OPS_BN} &&
                int{CUDNN_NORM_OPS_NORM_ACTIVATION} == int{CUDNN_BATCHNORM_OPS_BN_ACTIVATION} &&
                int{CUDNN_NORM_OPS_NORM_ADD_ACTIVATION} == int{CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION});
  return static_cast<cudnnBatchNormOps_t>(ops);
}

// Scale and bias, and means and variances, have one descriptor each, but both are the derived one.
cudnnStatus_t same_parameters(const char* function, const cudnnTensorStruct* a, const cudnnTensorStruct* b) {
  if (any_null(a, b)) return null_argument(function);
  if (!same_layout(a->layout, b->layout)) {
    return fail(function, CUDNN_STATUS_BAD_PARAM, "a parameters' descriptor is not the derived one");
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t begin(const char* function, cudnnNormMode_t mode, cudnnNormAlgo_t algorithm, int groups,
                    const cudnnTensorStruct* a, const cudnnTensorStruct* b, cudnnBatchNormMode_t& result) {
  auto status = translate(function, mode, algorithm, groups, result);
  return status == CUDNN_STATUS_SUCCESS ? same_parameters(function, a, b) : status;
}

cudnnStatus_t sized(const char* function, cudnnHandle_t handle, const cudnnTensorStruct* x, int groups,
                    std::size_t* bytes, std::size_t (*size)(cudnnBatchNormOps_t, const Layout&),
                    cudnnNormOps_t ops) {
  if (any_null(handle, x, bytes)) return null_argument(function);
  if (groups != 1) return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "the group count is not 1");
  *bytes = size(translate(ops), x->layout);
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnDeriveNormTensorDescriptor(cudnnTensorDescriptor_t scale_bias,
                                                            cudnnTensorDescriptor_t mean_variance,
                                                            const cudnnTensorDescriptor_t x_desc,
                                                            cudnnNormMode_t mode, int groups) {
  cudnnBatchNormMode_t translated{};
  auto status = translate(__func__, mode, CUDNN_NORM_ALGO_STANDARD, groups, translated);
  if (status == CUDNN_STATUS_SUCCESS) {
    status = derive_norm_descriptor(__func__, scale_bias, x_desc, translated);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    status = derive_norm_descriptor(__func__, mean_variance, x_desc, translated);
  }
  return status;
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetNormalizationForwardTrainingWorkspaceSize(
    cudnnHandle_t handle, cudnnNormMode_t, cudnnNormOps_t ops, cudnnNormAlgo_t,
    const cudnnTensorDescriptor_t x_desc, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t,
    std::size_t* bytes, int groups) {
  const auto size = [](cudnnBatchNormOps_t o, const Layout& x) { return norm_workspace(o, x, false); };
  return sized(__func__, handle, x_desc, groups, bytes, size, ops);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetNormalizationBackwardWorkspaceSize(
    cudnnHandle_t handle, cudnnNormMode_t, cudnnNormOps_t ops, cudnnNormAlgo_t,
    const cudnnTensorDescriptor_t x_desc, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t, const cudnnTensorDescriptor_t,
    const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t, std::size_t* bytes, int groups) {
  const auto size = [](cudnnBatchNormOps_t o, const Layout& x) { return norm_workspace(o, x, true); };
  return sized(__func__, handle, x_desc, groups, bytes, size, ops);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnGetNormalizationTrainingReserveSpaceSize(
    cudnnHandle_t handle, cudnnNormMode_t, cudnnNormOps_t ops, cudnnNormAlgo_t,
    const cudnnActivationDescriptor_t, const cudnnTensorDescriptor_t x_desc, std::size_t* bytes, int groups) {
  return sized(__func__, handle, x_desc, groups, bytes, &norm_reserve, ops);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnNormalizationForwardTraining(
    cudnnHandle_t handle, cudnnNormMode_t mode, cudnnNormOps_t ops, cudnnNormAlgo_t algorithm,
    const void* alpha, const void* beta, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t scale_desc, const void* scale, const void* bias, double factor,
    const cudnnTensorDescriptor_t mean_desc, void* running_mean, void* running_variance, double epsilon,
    void* saved_mean, void* saved_inverse, cudnnActivationDescriptor_t activation,
    const cudnnTensorDescriptor_t z_desc, const void* z, const cudnnTensorDescriptor_t y_desc, void* y,
    void* workspace, std::size_t workspace_bytes, void* reserve, std::size_t reserve_bytes, int groups) {
  cudnnBatchNormMode_t translated{};
  auto status = begin(__func__, mode, algorithm, groups, scale_desc, mean_desc, translated);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const NormTail tail{translate(ops), activation,      z_desc,  const_cast<void*>(z),
                      workspace,      workspace_bytes, reserve, reserve_bytes};
  return norm_training(__func__, handle,
                       {translated, alpha, beta, x_desc, x, y_desc, y, scale_desc, scale, bias, factor,
                        running_mean, running_variance, epsilon, saved_mean, saved_inverse, tail});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnNormalizationForwardInference(
    cudnnHandle_t handle, cudnnNormMode_t mode, cudnnNormOps_t ops, cudnnNormAlgo_t algorithm,
    const void* alpha, const void* beta, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t scale_desc, const void* scale, const void* bias,
    const cudnnTensorDescriptor_t mean_desc, const void* mean, const void* variance,
    const cudnnTensorDescriptor_t z_desc, const void* z, cudnnActivationDescriptor_t activation,
    const cudnnTensorDescriptor_t y_desc, void* y, double epsilon, int groups) {
  cudnnBatchNormMode_t translated{};
  auto status = begin(__func__, mode, algorithm, groups, scale_desc, mean_desc, translated);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const NormTail tail{translate(ops), activation, z_desc, const_cast<void*>(z), nullptr, 0, nullptr, 0};
  return norm_inference(__func__, handle,
                        {translated, alpha, beta, x_desc, x, y_desc, y, scale_desc, scale, bias, mean,
                         variance, epsilon, tail});
}

SOFTGPU_CUDNN cudnnStatus_t cudnnNormalizationBackward(
    cudnnHandle_t handle, cudnnNormMode_t mode, cudnnNormOps_t ops, cudnnNormAlgo_t algorithm,
    const void* alpha_data, const void* beta_data, const void* alpha_param, const void* beta_param,
    const cudnnTensorDescriptor_t x_desc, const void* x, const cudnnTensorDescriptor_t, const void*,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnTensorDescriptor_t dz_desc, void* dz,
    const cudnnTensorDescriptor_t dx_desc, void* dx, const cudnnTensorDescriptor_t scale_desc,
    const void* scale, const void*, void* dscale, void* dbias, double epsilon,
    const cudnnTensorDescriptor_t mean_desc, const void* saved_mean, const void* saved_inverse,
    cudnnActivationDescriptor_t activation, void* workspace, std::size_t workspace_bytes, void* reserve,
    std::size_t reserve_bytes, int groups) {
  cudnnBatchNormMode_t translated{};
  auto status = begin(__func__, mode, algorithm, groups, scale_desc, mean_desc, translated);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  const NormTail tail{translate(ops), activation,      dz_desc, dz,
                      workspace,      workspace_bytes, reserve, reserve_bytes};
  return norm_backward(
      __func__, handle,
      {translated, alpha_data, beta_data, alpha_param, beta_param, x_desc, x, dy_desc, dy, dx_desc, dx,
       scale_desc, scale, dscale, dbias, epsilon, saved_mean, saved_inverse, tail});
}
