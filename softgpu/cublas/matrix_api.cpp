// cublasSgemm, cublasSgemmStridedBatched, cublasSgemv, cublasSgeam, cublasSdgmm.
#include <algorithm>

#include "softgpu/cublas/matrix.h"

namespace softgpu::cublas {
namespace {

bool known(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}
std::int32_t transposes(cublasOperation_t op) {
  return op == CUBLAS_OP_N ? 0 : 1;
}

cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int m, int n,
                    int k, const float* alpha, const float* a, int lda, std::int64_t stride_a, const float* b,
                    int ldb, std::int64_t stride_b, const float* beta, float* c, int ldc,
                    std::int64_t stride_c, int batch) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!known(op_a) || !known(op_b) || m < 0 || n < 0 || k < 0 || batch < 0 || !alpha || !beta ||
      lda < std::max(1, op_a == CUBLAS_OP_N ? m : k) || ldb < std::max(1, op_b == CUBLAS_OP_N ? k : n) ||
      ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0 || batch == 0) return CUBLAS_STATUS_SUCCESS;
  const Gemm::Args args{
      transposes(op_a),      transposes(op_b),    m, n, k, lda, ldb, ldc, stride_a, stride_b, stride_c, batch,
      scalar(handle, alpha), scalar(handle, beta)};
  if (!c || (args.reads_inputs() && (!a || !b))) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Gemm>(
      handle, std::int64_t{m} * n * batch,
      {address(a), address(b), address(c), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

SOFTGPU_CUBLAS cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t op_a,
                                             cublasOperation_t op_b, int m, int n, int k, const float* alpha,
                                             const float* a, int lda, const float* b, int ldb,
                                             const float* beta, float* c, int ldc) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);
}

SOFTGPU_CUBLAS cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t op_a,
                                                        cublasOperation_t op_b, int m, int n, int k,
                                                        const float* alpha, const float* a, int lda,
                                                        long long stride_a, const float* b, int ldb,
                                                        long long stride_b, const float* beta, float* c,
                                                        int ldc, long long stride_c, int batch) {
  return gemm(handle, op_a, op_b, m, n, k, alpha, a, lda, stride_a, b, ldb, stride_b, beta, c, ldc, stride_c,
              batch);
}

SOFTGPU_CUBLAS cublasStatus_t cublasSgemv_v2(cublasHandle_t handle, cublasOperation_t op, int m, int n,
                                             const float* alpha, const float* a, int lda, const float* x,
                                             int incx, const float* beta, float* y, int incy) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!known(op) || m < 0 || n < 0 || !alpha || !beta || lda < std::max(1, m) || incx == 0 || incy == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const Gemv::Args args{transposes(op), m, n, lda, incx, incy, scalar(handle, alpha), scalar(handle, beta)};
  if (!y || (!args.alpha.zero() && (!a || !x))) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Gemv>(
      handle, args.y_count(),
      {address(a), address(x), address(y), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

SOFTGPU_CUBLAS cublasStatus_t cublasSgeam(cublasHandle_t handle, cublasOperation_t op_a,
                                          cublasOperation_t op_b, int m, int n, const float* alpha,
                                          const float* a, int lda, const float* beta, const float* b, int ldb,
                                          float* c, int ldc) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!known(op_a) || !known(op_b) || m < 0 || n < 0 || !alpha || !beta ||
      lda < std::max(1, op_a == CUBLAS_OP_N ? m : n) || ldb < std::max(1, op_b == CUBLAS_OP_N ? m : n) ||
      ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const Geam::Args args{transposes(op_a),      transposes(op_b),    m, n, lda, ldb, ldc,
                        scalar(handle, alpha), scalar(handle, beta)};
  if (!c || (!args.alpha.zero() && !a) || (!args.beta.zero() && !b)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((c == a && (lda != ldc || args.transpose_a)) || (c == b && (ldb != ldc || args.transpose_b))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return launch<Geam>(
      handle, std::int64_t{m} * n,
      {address(a), address(b), address(c), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

SOFTGPU_CUBLAS cublasStatus_t cublasSdgmm(cublasHandle_t handle, cublasSideMode_t side, int m, int n,
                                          const float* a, int lda, const float* x, int incx, float* c,
                                          int ldc) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if ((side != CUBLAS_SIDE_LEFT && side != CUBLAS_SIDE_RIGHT) || m < 0 || n < 0 || lda < std::max(1, m) ||
      ldc < std::max(1, m) || incx == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!a || !x || !c || (a == c && lda != ldc)) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Dgmm>(handle, std::int64_t{m} * n, {address(a), address(x), address(c)},
                      {side == CUBLAS_SIDE_LEFT ? 1 : 0, m, n, lda, incx, ldc});
}
