// cublas[SD]gemm, gemmStridedBatched, gemmBatched; cublasSgemmEx, cublasGemmEx and its batched forms, of
// which that on arrays of addresses is for fp32.
#include "softgpu/cublas/matrix.h"
#include "softgpu/cublas/mixed.h"
#include "softgpu/cublas/operation.h"

namespace softgpu::cublas {
namespace {

// Sizes, leading dimensions and scalars that all forms have.
struct Shape {
  cublasOperation_t op_a, op_b;
  std::int64_t m, n, k, lda, ldb, ldc, batch;

  bool good() const {
    return known(op_a) && known(op_b) && m >= 0 && n >= 0 && k >= 0 && batch >= 0 &&
           lda >= at_least_one(op_a == CUBLAS_OP_N ? m : k) &&
           ldb >= at_least_one(op_b == CUBLAS_OP_N ? k : n) && ldc >= at_least_one(m);
  }
  bool empty() const { return m == 0 || n == 0 || batch == 0; }
};
struct Strides {
  std::int64_t a, b, c;
};

// `Kernel` is Gemm<T>, whose operands are matrices, or GemmBatched<T>, whose operands are arrays of
// addresses.
template <class Kernel, class T>
cublasStatus_t gemm(cublasHandle_t handle, const Shape& s, const T* alpha, const void* a, const void* b,
                    const T* beta, const void* c, const Strides& strides = {}) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!s.good() || !alpha || !beta) return CUBLAS_STATUS_INVALID_VALUE;
  if (s.empty()) return CUBLAS_STATUS_SUCCESS;
  if (too_large({s.m, s.n, s.k, s.lda, s.ldb, s.ldc})) return CUBLAS_STATUS_NOT_SUPPORTED;
  const typename Kernel::Args args{transposes(s.op_a),
                                   transposes(s.op_b),
                                   s.m,
                                   s.n,
                                   s.k,
                                   s.lda,
                                   s.ldb,
                                   s.ldc,
                                   strides.a,
                                   strides.b,
                                   strides.c,
                                   s.batch,
                                   scalar(handle, alpha),
                                   scalar(handle, beta)};
  if (!c || (args.reads_inputs() && (!a || !b))) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Kernel>(
      handle, s.m * s.n * s.batch,
      {address(a), address(b), address(c), scalar_address(handle, alpha), scalar_address(handle, beta)},
      args);
}

// Matrices of float computed in float are cublasSgemm's; the generic forms serve others too.
bool all_float(cudaDataType a, cudaDataType b, cudaDataType c) {
  return a == CUDA_R_32F && b == CUDA_R_32F && c == CUDA_R_32F;
}
bool in_float(cublasComputeType_t type) {
  return type == CUBLAS_COMPUTE_32F || type == CUBLAS_COMPUTE_32F_PEDANTIC ||
         type == CUBLAS_COMPUTE_32F_FAST_16F || type == CUBLAS_COMPUTE_32F_FAST_16BF ||
         type == CUBLAS_COMPUTE_32F_FAST_TF32;
}
const float* as_float(const void* scalar) {
  return static_cast<const float*>(scalar);
}

struct Types {
  cudaDataType a, b, c;

  bool known() const { return element_bytes(a) != 0 && element_bytes(b) != 0 && element_bytes(c) != 0; }
};

// The type of alpha and beta; -1 where this kind of computation is not there.
std::int32_t scalar_type(cublasComputeType_t compute) {
  switch (compute) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
      return CUDA_R_16F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return CUDA_R_64F;
    default:
      return in_float(compute) ? CUDA_R_32F : -1;
  }
}

cublasStatus_t mixed(cublasHandle_t handle, const Shape& s, const Types& types, std::int32_t scalars,
                     const void* alpha, const void* a, const void* b, const void* beta, void* c,
                     const Strides& strides = {}) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!s.good() || !alpha || !beta || !c) return CUBLAS_STATUS_INVALID_VALUE;
  if (scalars < 0 || !types.known()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (s.empty()) return CUBLAS_STATUS_SUCCESS;
  const bool device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  const MixedGemm::Matrix result{types.c, 0, s.ldc, strides.c};
  const MixedGemm::Args args{.transpose_a = transposes(s.op_a),
                             .transpose_b = transposes(s.op_b),
                             .m = s.m,
                             .n = s.n,
                             .k = s.k,
                             .batch = s.batch,
                             .a = {types.a, 0, s.lda, strides.a},
                             .b = {types.b, 0, s.ldb, strides.b},
                             .c = result,
                             .d = result,
                             .scalar_type = scalars,
                             .scalars_on_device = device,
                             .alpha = device ? 0 : host_scalar(alpha, scalars),
                             .beta = device ? 0 : host_scalar(beta, scalars)};
  if (args.reads_inputs() && (!a || !b)) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<MixedGemm>(handle, s.m * s.n * s.batch,
                           {address(a), address(b), address(c), address(c), 0, scalar_address(handle, alpha),
                            scalar_address(handle, beta)},
                           args);
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

#define SOFTGPU_GEMM_CALLS(letter, T, suffix, integer)                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##gemm_v2##suffix(                                            \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,          \
      integer k, const T* alpha, const T* a, integer lda, const T* b, integer ldb, const T* beta, T* c,     \
      integer ldc) {                                                                                        \
    return gemm<Gemm<T>>(handle, {op_a, op_b, m, n, k, lda, ldb, ldc, 1}, alpha, a, b, beta, c);            \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##gemmStridedBatched##suffix(                                 \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,          \
      integer k, const T* alpha, const T* a, integer lda, long long stride_a, const T* b, integer ldb,      \
      long long stride_b, const T* beta, T* c, integer ldc, long long stride_c, integer batch) {            \
    return gemm<Gemm<T>>(handle, {op_a, op_b, m, n, k, lda, ldb, ldc, batch}, alpha, a, b, beta, c,         \
                         {stride_a, stride_b, stride_c});                                                   \
  }                                                                                                         \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##gemmBatched##suffix(                                        \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,          \
      integer k, const T* alpha, const T* const a[], integer lda, const T* const b[], integer ldb,          \
      const T* beta, T* const c[], integer ldc, integer batch) {                                            \
    return gemm<GemmBatched<T>>(handle, {op_a, op_b, m, n, k, lda, ldb, ldc, batch}, alpha, a, b, beta, c); \
  }
SOFTGPU_EACH_FORM(SOFTGPU_GEMM_CALLS)

#define SOFTGPU_GEMM_EX_CALLS(suffix, integer)                                                               \
  SOFTGPU_CUBLAS cublasStatus_t cublasSgemmEx##suffix(                                                       \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,           \
      integer k, const float* alpha, const void* a, cudaDataType type_a, integer lda, const void* b,         \
      cudaDataType type_b, integer ldb, const float* beta, void* c, cudaDataType type_c, integer ldc) {      \
    const Shape shape{op_a, op_b, m, n, k, lda, ldb, ldc, 1};                                                \
    if (!all_float(type_a, type_b, type_c))                                                                  \
      return mixed(handle, shape, {type_a, type_b, type_c}, CUDA_R_32F, alpha, a, b, beta, c);               \
    return gemm<Gemm<float>>(handle, shape, alpha, a, b, beta, c);                                           \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublasGemmEx##suffix(                                                        \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,           \
      integer k, const void* alpha, const void* a, cudaDataType type_a, integer lda, const void* b,          \
      cudaDataType type_b, integer ldb, const void* beta, void* c, cudaDataType type_c, integer ldc,         \
      cublasComputeType_t compute, cublasGemmAlgo_t) {                                                       \
    const Shape shape{op_a, op_b, m, n, k, lda, ldb, ldc, 1};                                                \
    if (!all_float(type_a, type_b, type_c) || !in_float(compute))                                            \
      return mixed(handle, shape, {type_a, type_b, type_c}, scalar_type(compute), alpha, a, b, beta, c);     \
    return gemm<Gemm<float>>(handle, shape, as_float(alpha), a, b, as_float(beta), c);                       \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublasGemmBatchedEx##suffix(                                                 \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,           \
      integer k, const void* alpha, const void* const a[], cudaDataType type_a, integer lda,                 \
      const void* const b[], cudaDataType type_b, integer ldb, const void* beta, void* const c[],            \
      cudaDataType type_c, integer ldc, integer batch, cublasComputeType_t compute, cublasGemmAlgo_t) {      \
    if (!all_float(type_a, type_b, type_c) || !in_float(compute)) return CUBLAS_STATUS_NOT_SUPPORTED;        \
    return gemm<GemmBatched<float>>(handle, {op_a, op_b, m, n, k, lda, ldb, ldc, batch}, as_float(alpha), a, \
                                    b, as_float(beta), c);                                                   \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublasGemmStridedBatchedEx##suffix(                                          \
      cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, integer m, integer n,           \
      integer k, const void* alpha, const void* a, cudaDataType type_a, integer lda, long long stride_a,     \
      const void* b, cudaDataType type_b, integer ldb, long long stride_b, const void* beta, void* c,        \
      cudaDataType type_c, integer ldc, long long stride_c, integer batch, cublasComputeType_t compute,      \
      cublasGemmAlgo_t) {                                                                                    \
    const Shape shape{op_a, op_b, m, n, k, lda, ldb, ldc, batch};                                            \
    const Strides strides{stride_a, stride_b, stride_c};                                                     \
    if (!all_float(type_a, type_b, type_c) || !in_float(compute))                                            \
      return mixed(handle, shape, {type_a, type_b, type_c}, scalar_type(compute), alpha, a, b, beta, c,      \
                   strides);                                                                                 \
    return gemm<Gemm<float>>(handle, shape, as_float(alpha), a, b, as_float(beta), c, strides);              \
  }
SOFTGPU_GEMM_EX_CALLS(, int)
SOFTGPU_GEMM_EX_CALLS(_64, std::int64_t)
