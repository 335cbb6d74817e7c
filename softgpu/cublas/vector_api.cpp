// Level 1 in single and double precision: axpy, scal, copy, swap, rot, rotm, dot, nrm2, asum, amax, amin.
#include "softgpu/cublas/vector.h"
#include "softgpu/cudart/driver.h"

namespace softgpu::cublas {
namespace {

template <class T>
cublasStatus_t axpy(cublasHandle_t handle, std::int64_t n, const T* alpha, const T* x, std::int64_t incx,
                    T* y, std::int64_t incy) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  const typename Axpy<T>::Args args{n, incx, incy, scalar(handle, alpha)};
  if (n <= 0 || args.alpha.zero()) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Axpy<T>>(handle, n, {address(x), address(y), scalar_address(handle, alpha)}, args);
}

template <class T>
cublasStatus_t scal(cublasHandle_t handle, std::int64_t n, const T* alpha, T* x, std::int64_t incx) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  const typename Scal<T>::Args args{n, incx, scalar(handle, alpha)};
  if (n <= 0 || incx <= 0 || args.alpha.one()) return CUBLAS_STATUS_SUCCESS;
  if (!x) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Scal<T>>(handle, n, {address(x), scalar_address(handle, alpha)}, args);
}

template <class T>
cublasStatus_t copy(cublasHandle_t handle, std::int64_t n, const T* x, std::int64_t incx, T* y,
                    std::int64_t incy, bool exchange) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Copy<T>>(handle, n, {address(x), address(y)}, {n, incx, incy, exchange ? 1 : 0});
}

template <class T>
cublasStatus_t rotate(cublasHandle_t handle, std::int64_t n, T* x, std::int64_t incx, T* y, std::int64_t incy,
                      const T* first, const T* second, bool modified) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!first || (!modified && !second)) return CUBLAS_STATUS_INVALID_VALUE;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  const bool on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  typename Rotate<T>::Args args{n, incx, incy, modified ? 1 : 0, on_device ? 1 : 0, {}};
  for (int i = 0; !on_device && i < (modified ? 5 : 1); ++i) args.parameters[i] = first[i];
  if (!on_device && !modified) args.parameters[1] = *second;
  return launch<Rotate<T>>(
      handle, n, {address(x), address(y), scalar_address(handle, first), scalar_address(handle, second)},
      args);
}

// In host pointer mode the result comes back through the handle's own device memory, and the call waits for
// it.
template <class T, class Result>
cublasStatus_t reduce(cublasHandle_t handle, Reduction kind, std::int64_t n, const T* x, std::int64_t incx,
                      const T* y, std::int64_t incy, Result* result) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!result) return CUBLAS_STATUS_INVALID_VALUE;
  const bool to_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  // All but dot take vectors with a positive increment only.
  if (n <= 0 || (kind != Reduction::dot && incx <= 0)) {
    if (to_host) {
      *result = Result{0};
      return CUBLAS_STATUS_SUCCESS;
    }
    return launched(
        cudart::driver().MemsetD8Async(cudart::device_address(result), 0, sizeof(Result), handle->stream));
  }
  if (!x || (kind == Reduction::dot && !y)) return CUBLAS_STATUS_INVALID_VALUE;
  void* const where = to_host ? handle->own_workspace : result;
  auto status = launch<Reduce<T>>(handle, n, {address(x), address(y), address(where)},
                                  {kind, sizeof(Result), n, incx, incy});
  if (status != CUBLAS_STATUS_SUCCESS || !to_host) return status;
  if (cudaMemcpyAsync(result, where, sizeof(Result), cudaMemcpyDeviceToHost, handle->stream) != cudaSuccess ||
      cudaStreamSynchronize(handle->stream) != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

#define SOFTGPU_VECTOR_CALLS(letter, T, suffix, integer)                                                 \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##axpy_v2##suffix(                                         \
      cublasHandle_t handle, integer n, const T* alpha, const T* x, integer incx, T* y, integer incy) {  \
    return axpy(handle, n, alpha, x, incx, y, incy);                                                     \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##scal_v2##suffix(cublasHandle_t handle, integer n,        \
                                                                const T* alpha, T* x, integer incx) {    \
    return scal(handle, n, alpha, x, incx);                                                              \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##copy_v2##suffix(                                         \
      cublasHandle_t handle, integer n, const T* x, integer incx, T* y, integer incy) {                  \
    return copy(handle, n, x, incx, y, incy, false);                                                     \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##swap_v2##suffix(cublasHandle_t handle, integer n, T* x,  \
                                                                integer incx, T* y, integer incy) {      \
    return copy(handle, n, x, incx, y, incy, true);                                                      \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##rot_v2##suffix(cublasHandle_t handle, integer n, T* x,   \
                                                               integer incx, T* y, integer incy,         \
                                                               const T* cosine, const T* sine) {         \
    return rotate(handle, n, x, incx, y, incy, cosine, sine, false);                                     \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##rotm_v2##suffix(                                         \
      cublasHandle_t handle, integer n, T* x, integer incx, T* y, integer incy, const T* parameters) {   \
    return rotate<T>(handle, n, x, incx, y, incy, parameters, nullptr, true);                            \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##dot_v2##suffix(                                          \
      cublasHandle_t handle, integer n, const T* x, integer incx, const T* y, integer incy, T* result) { \
    return reduce(handle, Reduction::dot, n, x, incx, y, incy, result);                                  \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##nrm2_v2##suffix(cublasHandle_t handle, integer n,        \
                                                                const T* x, integer incx, T* result) {   \
    return reduce<T>(handle, Reduction::norm2, n, x, incx, nullptr, 1, result);                          \
  }                                                                                                      \
  SOFTGPU_CUBLAS cublasStatus_t cublas##letter##asum_v2##suffix(cublasHandle_t handle, integer n,        \
                                                                const T* x, integer incx, T* result) {   \
    return reduce<T>(handle, Reduction::sum_of_absolutes, n, x, incx, nullptr, 1, result);               \
  }
SOFTGPU_EACH_FORM(SOFTGPU_VECTOR_CALLS)

#define SOFTGPU_INDEX_CALLS(letter, T, suffix, integer)                              \
  SOFTGPU_CUBLAS cublasStatus_t cublasI##letter##amax_v2##suffix(                    \
      cublasHandle_t handle, integer n, const T* x, integer incx, integer* result) { \
    return reduce<T>(handle, Reduction::largest, n, x, incx, nullptr, 1, result);    \
  }                                                                                  \
  SOFTGPU_CUBLAS cublasStatus_t cublasI##letter##amin_v2##suffix(                    \
      cublasHandle_t handle, integer n, const T* x, integer incx, integer* result) { \
    return reduce<T>(handle, Reduction::smallest, n, x, incx, nullptr, 1, result);   \
  }
SOFTGPU_INDEX_CALLS(s, float, , int)
SOFTGPU_INDEX_CALLS(d, double, , int)
SOFTGPU_INDEX_CALLS(s, float, _64, std::int64_t)
SOFTGPU_INDEX_CALLS(d, double, _64, std::int64_t)
