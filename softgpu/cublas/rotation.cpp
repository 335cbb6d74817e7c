// cublas[SD]rotg and rotmg: what a plane rotation's numbers are. With scalars on the host the host computes
// them, as the real library does; with scalars in device memory a kernel.
#include "softgpu/cublas/rotation.h"

#include <cblas.h>

namespace softgpu::cublas {
namespace {

void rotg(float* a, float* b, float* c, float* s) {
  cblas_srotg(a, b, c, s);
}
void rotg(double* a, double* b, double* c, double* s) {
  cblas_drotg(a, b, c, s);
}
void rotmg(float* d1, float* d2, float* x1, const float* y1, float* parameters) {
  cblas_srotmg(d1, d2, x1, *y1, parameters);
}
void rotmg(double* d1, double* d2, double* x1, const double* y1, double* parameters) {
  cblas_drotmg(d1, d2, x1, *y1, parameters);
}

template <class T>
cublasStatus_t make_rotation(cublasHandle_t handle, bool modified, T* a, T* b, T* c, const T* d, T* result) {
  if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (!a || !b || !c || (modified ? !d || !result : !result)) return CUBLAS_STATUS_INVALID_VALUE;
  if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
    return launch<MakeRotation<T>>(
        handle, 1, {address(a), address(b), address(c), address(d), address(result)}, {modified ? 1 : 0});
  }
  if (modified) {
    rotmg(a, b, c, d, result);
  } else {
    rotg(a, b, c, result);
  }
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace

template <class T>
void MakeRotation<T>::footprint(const Pointers<5>& p, const Args& a, Footprint& out) {
  touch<T>(out, p[0], 1, TouchKind::read_write);
  touch<T>(out, p[1], 1, TouchKind::read_write);
  touch<T>(out, p[2], 1, a.modified ? TouchKind::read_write : TouchKind::write);
  touch_scalar<T>(out, p[3]);
  touch<T>(out, p[4], a.modified ? 5 : 1, TouchKind::write);
  out.kind = "blas1";
  out.flops = 20;
  out.bytes = 10 * sizeof(T);
}

// rotmg sets those of the five parameters that count; the others become 0 here.
template <class T>
void MakeRotation<T>::run(const Pointers<5>& p, const Args& a) {
  T* const result = device_memory<T>(p[4]);
  if (!a.modified)
    return rotg(device_memory<T>(p[0]), device_memory<T>(p[1]), device_memory<T>(p[2]), result);
  for (int i = 0; i < 5; ++i) result[i] = 0;
  rotmg(device_memory<T>(p[0]), device_memory<T>(p[1]), device_memory<T>(p[2]), device_memory<const T>(p[3]),
        result);
}

template struct MakeRotation<float>;
template struct MakeRotation<double>;

}  // namespace softgpu::cublas

using namespace softgpu::cublas;

SOFTGPU_CUBLAS cublasStatus_t cublasSrotg_v2(cublasHandle_t handle, float* a, float* b, float* c, float* s) {
  return make_rotation<float>(handle, false, a, b, c, nullptr, s);
}
SOFTGPU_CUBLAS cublasStatus_t cublasDrotg_v2(cublasHandle_t handle, double* a, double* b, double* c,
                                             double* s) {
  return make_rotation<double>(handle, false, a, b, c, nullptr, s);
}
SOFTGPU_CUBLAS cublasStatus_t cublasSrotmg_v2(cublasHandle_t handle, float* d1, float* d2, float* x1,
                                              const float* y1, float* parameters) {
  return make_rotation(handle, true, d1, d2, x1, y1, parameters);
}
SOFTGPU_CUBLAS cublasStatus_t cublasDrotmg_v2(cublasHandle_t handle, double* d1, double* d2, double* x1,
                                              const double* y1, double* parameters) {
  return make_rotation(handle, true, d1, d2, x1, y1, parameters);
}
