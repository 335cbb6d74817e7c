// Statuses with their reasons, and what every exported function starts from.
#pragma once

#include <cuda.h>
#include <cudnn.h>

#define SOFTGPU_CUDNN extern "C" __attribute__((visibility("default")))

namespace softgpu::cudnn {

// Notes "<function>: <reason>" for cudnnGetLastErrorString of this thread; returns `status`.
cudnnStatus_t fail(const char* function, cudnnStatus_t status, const char* reason);
// A driver's result of a launch, as cuDNN reports it.
cudnnStatus_t launched(const char* function, CUresult result);

// Reasons met in many places.
inline cudnnStatus_t null_argument(const char* function) {
  return fail(function, CUDNN_STATUS_BAD_PARAM, "an argument is a null pointer");
}
inline cudnnStatus_t not_float(const char* function) {
  return fail(function, CUDNN_STATUS_NOT_SUPPORTED, "only CUDNN_DATA_FLOAT is supported");
}

}  // namespace softgpu::cudnn
