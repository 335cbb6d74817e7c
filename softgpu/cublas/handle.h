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
  // Kept for who asks; they change nothing here.
  int multiprocessors = 0;
  cublasEmulationStrategy_t emulation = CUBLAS_EMULATION_STRATEGY_DEFAULT;
  cudaEmulationSpecialValuesSupport special_values = CUDA_EMULATION_SPECIAL_VALUES_SUPPORT_DEFAULT;
  cudaEmulationMantissaControl mantissa_control = CUDA_EMULATION_MANTISSA_CONTROL_DYNAMIC;
  int mantissa_bits = 0, mantissa_offset = 0;
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
template <class T>
struct Scalar {
  T value;
  std::int32_t on_device;

  bool zero() const { return !on_device && value == T{0}; }
  bool one() const { return !on_device && value == T{1}; }
  // `where`: the address that goes with it as a kernel's pointer.
  T get(std::uint64_t where) const { return on_device ? *device_memory<const T>(where) : value; }
};

template <class T>
Scalar<T> scalar(cublasHandle_t handle, const T* pointer) {
  const bool device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
  return {device ? T{0} : *pointer, device};
}
inline std::uint64_t scalar_address(cublasHandle_t handle, const void* pointer) {
  return handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE ? address(pointer) : 0;
}

// A kernel's name in single or double precision.
template <class T>
constexpr const char* by_precision(const char* single, const char* twice) {
  return sizeof(T) == sizeof(float) ? single : twice;
}

// --- footprints
// ----------------------------------------------------------------------------------------------

template <class T>
void touch(Footprint& out, std::uint64_t at, std::int64_t count, TouchKind kind) {
  if (at != 0 && count > 0) out.touches.push_back({at, sizeof(T) * static_cast<std::uint64_t>(count), kind});
}
template <class T>
void touch_scalar(Footprint& out, std::uint64_t at) {
  touch<T>(out, at, 1, TouchKind::read);
}

// A column-major matrix: one touch where columns follow each other without a gap, else one each.
template <class T>
void touch_matrix(Footprint& out, std::uint64_t at, std::int64_t rows, std::int64_t columns,
                  std::int64_t leading, TouchKind kind) {
  if (rows == leading) return touch<T>(out, at, rows * columns, kind);
  for (std::int64_t c = 0; c < columns; ++c) {
    touch<T>(out, at + sizeof(T) * static_cast<std::uint64_t>(c * leading), rows, kind);
  }
}

// `count` values, `increment` apart; the order does not matter here.
template <class T>
void touch_vector(Footprint& out, std::uint64_t at, std::int64_t count, std::int64_t increment,
                  TouchKind kind) {
  const std::int64_t step = increment < 0 ? -increment : increment;
  if (step == 0) return touch<T>(out, at, 1, kind);
  touch_matrix<T>(out, at, 1, count, step, kind);
}

// The first element in the order of the operation: a negative increment starts at the far end.
template <class T>
T* start(std::uint64_t at, std::int64_t count, std::int64_t increment) {
  return device_memory<T>(at) + (increment < 0 ? (1 - count) * increment : 0);
}

// What `result + beta * c` does to c.
template <class T>
TouchKind written(const Scalar<T>& beta) {
  return beta.zero() ? TouchKind::write : TouchKind::read_write;
}

// Calls `define(letter, type, suffix, integer)` for both precisions and both sizes of integers.
#define SOFTGPU_EACH_FORM(define)                                                      \
  define(S, float, , int) define(D, double, , int) define(S, float, _64, std::int64_t) \
      define(D, double, _64, std::int64_t)

}  // namespace softgpu::cublas
