// cublasSaxpy, cublasSscal, cublasScopy, cublasSdot, cublasSnrm2, cublasSasum.
#include "softgpu/cublas/vector.h"

#include <cmath>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudnn/lanes.h"

namespace softgpu::cublas {
namespace {

// The first element in the order of the operation: a negative increment starts at the far end.
template <class T>
T* start(std::uint64_t at, std::int64_t count, std::int64_t increment) {
  return device_memory<T>(at) + (increment < 0 ? (1 - count) * increment : 0);
}

}  // namespace

void Axpy::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_vector(out, p[0], a.count, a.incx, TouchKind::read);
  touch_scalar(out, p[2]);
  touch_vector(out, p[1], a.count, a.incy, TouchKind::read_write);
  out.kind = "blas1";
  out.flops = 2 * static_cast<double>(a.count);
  out.bytes = 12 * static_cast<double>(a.count);
}

void Axpy::run(const Pointers<3>& p, const Args& a) {
  const auto* x = start<const float>(p[0], a.count, a.incx);
  auto* y = start<float>(p[1], a.count, a.incy);
  const float alpha = a.alpha.get(p[2]);
  if (a.incx == 1 && a.incy == 1) {
    for (std::int64_t i = 0; i < a.count; ++i) y[i] += alpha * x[i];
  } else {
    for (std::int64_t i = 0; i < a.count; ++i) y[i * a.incy] += alpha * x[i * a.incx];
  }
}

void Scal::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  touch_scalar(out, p[1]);
  touch_vector(out, p[0], a.count, a.incx, TouchKind::read_write);
  out.kind = "blas1";
  out.flops = static_cast<double>(a.count);
  out.bytes = 8 * static_cast<double>(a.count);
}

void Scal::run(const Pointers<2>& p, const Args& a) {
  auto* x = device_memory(p[0]);
  const float alpha = a.alpha.get(p[1]);
  if (a.incx == 1) {
    for (std::int64_t i = 0; i < a.count; ++i) x[i] *= alpha;
  } else {
    for (std::int64_t i = 0; i < a.count; ++i) x[i * a.incx] *= alpha;
  }
}

void Copy::footprint(const Pointers<2>& p, const Args& a, Footprint& out) {
  touch_vector(out, p[0], a.count, a.incx, TouchKind::read);
  touch_vector(out, p[1], a.count, a.incy, TouchKind::write);
  out.kind = "blas1";
  out.bytes = 8 * static_cast<double>(a.count);
}

void Copy::run(const Pointers<2>& p, const Args& a) {
  const auto* x = start<const float>(p[0], a.count, a.incx);
  auto* y = start<float>(p[1], a.count, a.incy);
  for (std::int64_t i = 0; i < a.count; ++i) y[i * a.incy] = x[i * a.incx];
}

void Reduce::footprint(const Pointers<3>& p, const Args& a, Footprint& out) {
  touch_vector(out, p[0], a.count, a.incx, TouchKind::read);
  if (a.kind == Reduction::dot) touch_vector(out, p[1], a.count, a.incy, TouchKind::read);
  touch(out, p[2], 1, TouchKind::write);
  out.kind = "blas1";
  out.flops = 2 * static_cast<double>(a.count);
  out.bytes = (a.kind == Reduction::dot ? 8 : 4) * static_cast<double>(a.count);
}

void Reduce::run(const Pointers<3>& p, const Args& a) {
  cudnn::Lanes sum;
  const auto* x = start<const float>(p[0], a.count, a.incx);
  float& result = *device_memory(p[2]);
  switch (a.kind) {
    case Reduction::dot: {
      const auto* y = start<const float>(p[1], a.count, a.incy);
      cudnn::accumulate(sum, a.count, [&](std::int64_t i) {
        return static_cast<double>(x[i * a.incx]) * static_cast<double>(y[i * a.incy]);
      });
      result = static_cast<float>(sum.total());
      return;
    }
    case Reduction::norm2:
      cudnn::accumulate(sum, a.count, [&](std::int64_t i) {
        return static_cast<double>(x[i * a.incx]) * static_cast<double>(x[i * a.incx]);
      });
      result = static_cast<float>(std::sqrt(sum.total()));
      return;
    case Reduction::sum_of_absolutes:
      cudnn::accumulate(sum, a.count,
                        [&](std::int64_t i) { return std::fabs(static_cast<double>(x[i * a.incx])); });
      result = static_cast<float>(sum.total());
      return;
  }
}

namespace {

// In host pointer mode the result comes back through the handle's own device memory, and the call waits for
// it.
cublasStatus_t reduce(cublasHandle_t handle, Reduction kind, int count, const float* x, int incx,
                      const float* y, int incy, float* result) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!result) return CUBLAS_STATUS_INVALID_VALUE;
  const bool to_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  // The norms take vectors with a positive increment only.
  if (count <= 0 || (kind != Reduction::dot && incx <= 0)) {
    if (to_host) {
      *result = 0.0F;
      return CUBLAS_STATUS_SUCCESS;
    }
    return launched(
        cudart::driver().MemsetD8Async(cudart::device_address(result), 0, sizeof(float), handle->stream));
  }
  if (!x || (kind == Reduction::dot && !y)) return CUBLAS_STATUS_INVALID_VALUE;
  void* const where = to_host ? handle->own_workspace : result;
  auto status =
      launch<Reduce>(handle, count, {address(x), address(y), address(where)}, {kind, count, incx, incy});
  if (status != CUBLAS_STATUS_SUCCESS || !to_host) return status;
  if (cudaMemcpyAsync(result, where, sizeof(float), cudaMemcpyDeviceToHost, handle->stream) != cudaSuccess ||
      cudaStreamSynchronize(handle->stream) != cudaSuccess) {
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

SOFTGPU_CUBLAS cublasStatus_t cublasSaxpy_v2(cublasHandle_t handle, int n, const float* alpha, const float* x,
                                             int incx, float* y, int incy) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  const Axpy::Args args{n, incx, incy, scalar(handle, alpha)};
  if (n <= 0 || args.alpha.zero()) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Axpy>(handle, n, {address(x), address(y), scalar_address(handle, alpha)}, args);
}

SOFTGPU_CUBLAS cublasStatus_t cublasSscal_v2(cublasHandle_t handle, int n, const float* alpha, float* x,
                                             int incx) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!alpha) return CUBLAS_STATUS_INVALID_VALUE;
  const Scal::Args args{n, incx, scalar(handle, alpha)};
  if (n <= 0 || incx <= 0 || args.alpha.one()) return CUBLAS_STATUS_SUCCESS;
  if (!x) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Scal>(handle, n, {address(x), scalar_address(handle, alpha)}, args);
}

SOFTGPU_CUBLAS cublasStatus_t cublasScopy_v2(cublasHandle_t handle, int n, const float* x, int incx, float* y,
                                             int incy) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n <= 0) return CUBLAS_STATUS_SUCCESS;
  if (!x || !y) return CUBLAS_STATUS_INVALID_VALUE;
  return launch<Copy>(handle, n, {address(x), address(y)}, {n, incx, incy});
}

SOFTGPU_CUBLAS cublasStatus_t cublasSdot_v2(cublasHandle_t handle, int n, const float* x, int incx,
                                            const float* y, int incy, float* result) {
  return reduce(handle, Reduction::dot, n, x, incx, y, incy, result);
}
SOFTGPU_CUBLAS cublasStatus_t cublasSnrm2_v2(cublasHandle_t handle, int n, const float* x, int incx,
                                             float* result) {
  return reduce(handle, Reduction::norm2, n, x, incx, nullptr, 1, result);
}
SOFTGPU_CUBLAS cublasStatus_t cublasSasum_v2(cublasHandle_t handle, int n, const float* x, int incx,
                                             float* result) {
  return reduce(handle, Reduction::sum_of_absolutes, n, x, incx, nullptr, 1, result);
}
