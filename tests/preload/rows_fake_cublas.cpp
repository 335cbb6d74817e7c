// A cuBLAS whose product is one of cuBLASLt's, called through the dynamic linker as the real one does.
#include <cublasLt.h>
#include <cublas_v2.h>

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE cublasStatus_t cublasGetStream_v2(cublasHandle_t, cudaStream_t* stream) {
  return *stream = nullptr, CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasGetPointerMode_v2(cublasHandle_t, cublasPointerMode_t* mode) {
  return *mode = CUBLAS_POINTER_MODE_HOST, CUBLAS_STATUS_SUCCESS;
}
FAKE cublasStatus_t cublasSgemm_v2(cublasHandle_t, cublasOperation_t, cublasOperation_t, int m, int n, int k,
                                   const float* alpha, const float* A, int lda, const float* B, int ldb,
                                   const float* beta, float* C, int ldc) {
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t a, b, c;
  cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayoutCreate(&a, CUDA_R_32F, m, k, lda);
  cublasLtMatrixLayoutCreate(&b, CUDA_R_32F, k, n, ldb);
  cublasLtMatrixLayoutCreate(&c, CUDA_R_32F, m, n, ldc);
  return cublasLtMatmul(nullptr, product, alpha, A, a, B, b, beta, C, c, C, c, nullptr, nullptr, 0, nullptr);
}
