// What the three families of calls (plain, Ex, cudnnNormalization*) do, as functions of one set of arguments.
#pragma once

#include "softgpu/cudnn/descriptors/descriptors.h"

namespace softgpu::cudnn {

// What follows the normalisation: nothing, ReLU, or the addition of z and ReLU.
struct NormTail {
  cudnnBatchNormOps_t ops = CUDNN_BATCHNORM_OPS_BN;
  const cudnnActivationStruct* activation = nullptr;
  const cudnnTensorStruct* z_desc = nullptr;  // or dz
  void* z = nullptr;
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;
  void* reserve = nullptr;  // which elements passed the ReLU
  std::size_t reserve_bytes = 0;
};

struct NormTraining {
  cudnnBatchNormMode_t mode;
  const void *alpha, *beta;
  const cudnnTensorStruct* x_desc;
  const void* x;
  const cudnnTensorStruct* y_desc;
  void* y;
  const cudnnTensorStruct* parameter_desc;
  const void *scale, *bias;
  double factor;
  void *running_mean, *running_variance;
  double epsilon;
  void *saved_mean, *saved_inverse;
  NormTail tail;
};
cudnnStatus_t norm_training(const char* function, cudnnHandle_t handle, const NormTraining& call);

struct NormInference {
  cudnnBatchNormMode_t mode;
  const void *alpha, *beta;
  const cudnnTensorStruct* x_desc;
  const void* x;
  const cudnnTensorStruct* y_desc;
  void* y;
  const cudnnTensorStruct* parameter_desc;
  const void *scale, *bias, *mean, *variance;
  double epsilon;
  NormTail tail;
};
cudnnStatus_t norm_inference(const char* function, cudnnHandle_t handle, const NormInference& call);

struct NormBackward {
  cudnnBatchNormMode_t mode;
  const void *alpha_data, *beta_data, *alpha_parameter, *beta_parameter;
  const cudnnTensorStruct* x_desc;
  const void* x;
  const cudnnTensorStruct* dy_desc;
  const void* dy;
  const cudnnTensorStruct* dx_desc;
  void* dx;
  const cudnnTensorStruct* parameter_desc;
  const void* scale;
  void *dscale, *dbias;
  double epsilon;
  const void *saved_mean, *saved_inverse;
  NormTail tail;
};
cudnnStatus_t norm_backward(const char* function, cudnnHandle_t handle, const NormBackward& call);

// Bytes of workspace and reserve space. Only the backward call behind a ReLU without z needs a workspace: the
// gradient as it is before the ReLU.
std::size_t norm_workspace(cudnnBatchNormOps_t ops, const Layout& x, bool backward);
std::size_t norm_reserve(cudnnBatchNormOps_t ops, const Layout& x);

cudnnStatus_t derive_norm_descriptor(const char* function, cudnnTensorStruct* result,
                                     const cudnnTensorStruct* x, cudnnBatchNormMode_t mode);

}  // namespace softgpu::cudnn
