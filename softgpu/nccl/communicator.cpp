#include "softgpu/nccl/communicator.h"

#include <cstdio>

#include "softgpu/cudart/driver.h"

namespace softgpu::nccl {

OnDevice::OnDevice(int device) {
  if (cudart::enter_driver() != cudaSuccess) return;
  if (cudart::driver().CtxGetCurrent(&before_) != CUDA_SUCCESS) return;
  well = cudaSetDevice(device) == cudaSuccess;
}

OnDevice::~OnDevice() {
  if (well) (void)cudart::driver().CtxSetCurrent(before_);
}

ncclResult_t refuse(ncclResult_t status, const char* function, const char* why) {
  std::fprintf(stderr, "softgpu: %s: %s\n", function, why);
  return status;
}

}  // namespace softgpu::nccl
