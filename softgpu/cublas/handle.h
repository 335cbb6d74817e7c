// What stands behind cublasHandle_t, and what every exported function starts from.
#pragma once

#include <cublas_api.h>
#include <cuda.h>

#include <cstddef>

#include "softgpu/cudart/kernel_library.h"

#define SOFTGPU_CUBLAS extern "C" __attribute__((visibility("default")))

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  void* own_workspace = nullptr;  // device memory; scalar results pass through its first bytes
  void* workspace = nullptr;      // the program's, where it gave one
  std::size_t workspace_bytes = 0;
};

namespace softgpu::cublas {

KernelLibrary& kernels();

inline std::uint64_t address(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

// A driver's result of a launch, as cuBLAS reports it.
cublasStatus_t launched(CUresult result);

template <class Kernel>
cublasStatus_t launch(cublasHandle_t handle, std::int64_t work_items, Pointers<Kernel::pointers> pointers,
                      const typename Kernel::Args& args) {
  return launched(kernels().launch<Kernel>(handle->stream, work_items, pointers, args));
}

// A scalar that a call was given by pointer: its value, or the promise that the kernel finds it in device
// memory.
struct Scalar {
  float value;
  std::int32_t on_device;

  bool zero() const { return !on_device && value == 0.0F; }
  bool one() const { return !on_device && value == 1.0F; }
  // `where`: the address that goes with it as a kernel's pointer.
  float get(std::uint64_t where) const { return on_device ? *device_memory<const float>(where) : value; }
};

inline Scalar scalar(cublasHandle_t handle, const float* pointer) {
  const bool device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  return {device ? 0.0F : *pointer, device};
}
inline std::uint64_t scalar_address(cublasHandle_t handle, const float* pointer) {
  return handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? address(pointer) : 0;
}

// --- footprints
// ----------------------------------------------------------------------------------------------

inline void touch(Footprint& out, std::uint64_t at, std::int64_t floats, TouchKind kind) {
  if (at != 0 && floats > 0) out.touches.push_back({at, 4 * static_cast<std::uint64_t>(floats), kind});
}
inline void touch_scalar(Footprint& out, std::uint64_t at) {
  touch(out, at, 1, TouchKind::read);
}

// A column-major matrix: one touch where columns follow each other without a gap, else one each.
inline void touch_matrix(Footprint& out, std::uint64_t at, std::int64_t rows, std::int64_t columns,
                         std::int64_t leading, TouchKind kind) {
  if (rows == leading) return touch(out, at, rows * columns, kind);
  for (std::int64_t c = 0; c < columns; ++c) {
    touch(out, at + 4 * static_cast<std::uint64_t>(c * leading), rows, kind);
  }
}

// `count` floats, `increment` apart; the order does not matter here.
inline void touch_vector(Footprint& out, std::uint64_t at, std::int64_t count, std::int64_t increment,
                         TouchKind kind) {
  const std::int64_t step = increment < 0 ? -increment : increment;
  touch_matrix(out, at, 1, count, step, kind);
}

// What `result + beta * c` does to c.
inline TouchKind written(const Scalar& beta) {
  return beta.zero() ? TouchKind::write : TouchKind::read_write;
}

}  // namespace softgpu::cublas
