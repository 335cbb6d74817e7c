// cublasSetVector, cublasGetVector, cublasSetMatrix, cublasGetMatrix and their asynchronous forms: strided
// copies between host and device. A vector is a matrix of one row; a matrix without gaps is one column.
#include <cuda_runtime_api.h>

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {
namespace {

struct Matrices {
  std::int64_t rows, columns, element_bytes;
  const void* from;
  std::int64_t from_leading;
  void* to;
  std::int64_t to_leading;

  bool good() const {
    return rows >= 0 && columns >= 0 && element_bytes > 0 && from_leading >= rows && to_leading >= rows &&
           from_leading > 0 && to_leading > 0;
  }
  bool empty() const { return rows == 0 || columns == 0; }
  Matrices joined() const {
    if (from_leading != rows || to_leading != rows) return *this;
    return {rows * columns, 1, element_bytes, from, rows * columns, to, rows * columns};
  }
};

std::size_t size(std::int64_t bytes) {
  return static_cast<std::size_t>(bytes);
}

cublasStatus_t copied(cudaError_t error) {
  return error == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_MAPPING_ERROR;
}

cublasStatus_t copy(const Matrices& given, cudaMemcpyKind kind) {
  if (!given.good()) return CUBLAS_STATUS_INVALID_VALUE;
  if (given.empty()) return CUBLAS_STATUS_SUCCESS;
  const Matrices m = given.joined();
  return copied(cudaMemcpy2D(m.to, size(m.to_leading * m.element_bytes), m.from,
                             size(m.from_leading * m.element_bytes), size(m.rows * m.element_bytes),
                             size(m.columns), kind));
}

cublasStatus_t copy_async(const Matrices& given, cudaMemcpyKind kind, cudaStream_t stream) {
  if (!given.good()) return CUBLAS_STATUS_INVALID_VALUE;
  if (given.empty()) return CUBLAS_STATUS_SUCCESS;
  const Matrices m = given.joined();
  return copied(cudaMemcpy2DAsync(m.to, size(m.to_leading * m.element_bytes), m.from,
                                  size(m.from_leading * m.element_bytes), size(m.rows * m.element_bytes),
                                  size(m.columns), kind, stream));
}

}  // namespace
}  // namespace softgpu::cublas

using namespace softgpu::cublas;

#define SOFTGPU_TRANSFERS(verb, kind, suffix, integer)                                                       \
  SOFTGPU_CUBLAS cublasStatus_t cublas##verb##Vector##suffix(integer n, integer bytes, const void* from,     \
                                                             integer from_step, void* to, integer to_step) { \
    return copy({1, n, bytes, from, from_step, to, to_step}, kind);                                          \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublas##verb##VectorAsync##suffix(                                           \
      integer n, integer bytes, const void* from, integer from_step, void* to, integer to_step,              \
      cudaStream_t stream) {                                                                                 \
    return copy_async({1, n, bytes, from, from_step, to, to_step}, kind, stream);                            \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublas##verb##Matrix##suffix(integer rows, integer columns, integer bytes,   \
                                                             const void* from, integer from_leading,         \
                                                             void* to, integer to_leading) {                 \
    return copy({rows, columns, bytes, from, from_leading, to, to_leading}, kind);                           \
  }                                                                                                          \
  SOFTGPU_CUBLAS cublasStatus_t cublas##verb##MatrixAsync##suffix(                                           \
      integer rows, integer columns, integer bytes, const void* from, integer from_leading, void* to,        \
      integer to_leading, cudaStream_t stream) {                                                             \
    return copy_async({rows, columns, bytes, from, from_leading, to, to_leading}, kind, stream);             \
  }
SOFTGPU_TRANSFERS(Set, cudaMemcpyHostToDevice, , int)
SOFTGPU_TRANSFERS(Get, cudaMemcpyDeviceToHost, , int)
SOFTGPU_TRANSFERS(Set, cudaMemcpyHostToDevice, _64, std::int64_t)
SOFTGPU_TRANSFERS(Get, cudaMemcpyDeviceToHost, _64, std::int64_t)
