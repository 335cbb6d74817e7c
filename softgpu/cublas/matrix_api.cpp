// cublas[SD]gemv, ger, geam, dgmm, tbsv.
#include <algorithm>

#include "softgpu/cublas/matrix.h"
#include "softgpu/cublas/operation.h"

namespace softgpu::cublas {
namespace {

template <class T>
cublasStatus_t gemv(cublasHandle_t handle, cublasOperation_t op, std::int64_t m, std::int64_t n,
                    const T* alpha, const T* a, std::int64_t lda, const T* x, std::int64_t incx,
                    const T* beta, T* y, std::int64_t incy) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!known(op) || m < 0 || n < 0 || !alpha || !beta || lda < at_least_one(m) || incx == 0 || incy == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (too_large({m, n, lda, incx, incy})) return CUBLAS_STATUS_NOT_SUPPORTED;
  const typename Gemv<T>::Args args{transposes(op),      m, n, lda, incx, incy, scalar(handle, alpha),
                                    scalar(handle, beta)};
  if (!y || (!args.alpha.zero() && (!a || !x))) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Gemv<T>>(
      handle, args.y_count(),
      {address(a), address(x), address(y), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

template <class T>
cublasStatus_t ger(cublasHandle_t handle, std::int64_t m, std::int64_t n, const T* alpha, const T* x,
                   std::int64_t incx, const T* y, std::int64_t incy, T* a, std::int64_t lda) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (m < 0 || n < 0 || !alpha || lda < at_least_one(m) || incx == 0 || incy == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const typename Ger<T>::Args args{m, n, incx, incy, lda, scalar(handle, alpha)};
  if (m == 0 || n == 0 || args.alpha.zero()) return CUBLAS_STATUS_SUCCESS;
  if (!a || !x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Ger<T>>(handle, m * n, {address(x), address(y), address(a), scalar_address(handle, alpha)},
                        args);
}

template <class T>
cublasStatus_t geam(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
                    std::int64_t n, const T* alpha, const T* a, std::int64_t lda, const T* beta, const T* b,
                    std::int64_t ldb, T* c, std::int64_t ldc) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!known(op_a) || !known(op_b) || m < 0 || n < 0 || !alpha || !beta ||
      lda < at_least_one(op_a == CUBLAS_OP_N ? m : n) || ldb < at_least_one(op_b == CUBLAS_OP_N ? m : n) ||
      ldc < at_least_one(m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  const typename Geam<T>::Args args{transposes(op_a),      transposes(op_b),    m, n, lda, ldb, ldc,
                                    scalar(handle, alpha), scalar(handle, beta)};
  if (!c || (!args.alpha.zero() && !a) || (!args.beta.zero() && !b)) return CUBLAS_STATUS_INVALID_VALUE;
  if ((c == a && (lda != ldc || args.transpose_a)) || (c == b && (ldb != ldc || args.transpose_b))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  return launch<Geam<T>>(
      handle, m * n,
      {address(a), address(b), address(c), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

template <class T>
cublasStatus_t dgmm(cublasHandle_t handle, cublasSideMode_t side, std::int64_t m, std::int64_t n, const T* a,
                    std::int64_t lda, const T* x, std::int64_t incx, T* c, std::int64_t ldc) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if ((side != CUBLAS_SIDE_LEFT && side != CUBLAS_SIDE_RIGHT) || m < 0 || n < 0 || lda < at_least_one(m) ||
      ldc < at_least_one(m) || incx == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!a || !x || !c || (a == c && lda != ldc)) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Dgmm<T>>(handle, m * n, {address(a), address(x), address(c)},
                         {side == CUBLAS_SIDE_LEFT ? 1 : 0, m, n, lda, incx, ldc});
}

template <class T>
cublasStatus_t tbsv(cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t op, cublasDiagType_t diag,
                    std::int64_t n, std::int64_t k, const T* a, std::int64_t lda, T* x, std::int64_t incx) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool upper = uplo == CUBLAS_FILL_MODE_UPPER, unit = diag == CUBLAS_DIAG_UNIT;
  if ((!upper && uplo != CUBLAS_FILL_MODE_LOWER) || !known(op) || (!unit && diag != CUBLAS_DIAG_NON_UNIT) ||
      n < 0 || k < 0 || lda < k + 1 || incx == 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (n == 0) return CUBLAS_STATUS_SUCCESS;
  if (!a || !x) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Tbsv<T>>(handle, n, {address(a), address(x)},
                         {upper ? 1 : 0, transposes(op), unit ? 1 : 0, n, k, lda, incx});
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

#define SOFTGPU_MATRIX_CALLS(letter, T, suffix, integer)                                                    \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##gemv_v2##suffix(                                            \
      cublasHandle_t handle, cublasOperation_t op, integer m, integer n, const T* alpha, const T* a,        \
      integer lda, const T* x, integer incx, const T* beta, T* y, integer incy) {                           \
    return gemv(handle, op, m, n, alpha, a, lda, x, incx, beta, y, incy);                                   \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##ger_v2##suffix(                                             \
      cublasHandle_t handle, integer m, integer n, const T* alpha, const T* x, integer incx, const T* y,    \
      integer incy, T* a, integer lda) {                                                                    \
    return ger(handle, m, n, alpha, x, incx, y, incy, a, lda);                                              \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##geam##suffix(                                               \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,          \
      const T* alpha, const T* a, integer lda, const T* beta, const T* b, integer ldb, T* c, integer ldc) { \
    return geam(handle, op_a, op_b, m, n, alpha, a, lda, beta, b, ldb, c, ldc);                             \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##dgmm##suffix(cublasHandle_t handle, cublasSideMode_t side,  \
                                                             integer m, integer n, const T* a, integer lda, \
                                                             const T* x, integer incx, T* c, integer ldc) { \
    return dgmm(handle, side, m, n, a, lda, x, incx, c, ldc);                                               \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##tbsv_v2##suffix(                                            \
      cublasHandle_t handle, cublasFillMode_t uplo, cublasOperation_t op, cublasDiagType_t diag, integer n, \
      integer k, const T* a, integer lda, T* x, integer incx) {                                             \
    return tbsv(handle, uplo, op, diag, n, k, a, lda, x, incx);                                             \
  }
SOFTGPU_EACH_FORM(SOFTGPU_MATRIX_CALLS)
