#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

cublasStatus_t launched(CUresult result) {
  switch (result) {
    case CUDA_SUCCESS:
      return CUBLAS_STATUS_SUCCESS;
    case CUDA_ERROR_OUT_OF_MEMORY:
      return CUBLAS_STATUS_ALLOC_FAILED;
    default:
      return CUBLAS_STATUS_EXECUTION_FAILED;
  }
}

}  // namespace softgpu::cublas
