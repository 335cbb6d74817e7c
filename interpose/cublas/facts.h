// What has to be asked of cuBLAS about a call: the stream, the workspace, where scalars lie.
#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "core/ids.h"
#include "interpose/calls/call_builder.h"
#include "interpose/calls/extent.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

template <>
struct NotMade<cublasStatus_t> {
  static constexpr cublasStatus_t status = CUBLAS_STATUS_INTERNAL_ERROR;
};

StreamHandle cublas_stream(const Scope& scope, cublasHandle_t handle);
// Scalars and scalar results lie in device memory.
bool cublas_scalars_on_device(const Scope& scope, cublasHandle_t handle);
// The workspace that the program gave to this handle; it may be an empty one.
struct GivenWorkspace {
  void* memory = nullptr;
  std::size_t bytes = 0;
  bool given = false;
};
GivenWorkspace cublas_workspace(cublasHandle_t handle);
// Every call may use it.
void add_cublas_workspace(CallBuilder& call, cublasHandle_t handle);

template <class Scalar>
bool host_scalar_not_zero(const Scalar* scalar) {
  return scalar == nullptr || *scalar != Scalar{};
}
inline bool host_scalar_not_zero(const cuComplex* scalar) {
  return scalar == nullptr || scalar->x != 0 || scalar->y != 0;
}
inline bool host_scalar_not_zero(const cuDoubleComplex* scalar) {
  return scalar == nullptr || scalar->x != 0 || scalar->y != 0;
}
template <class Real>
Scalar scalar_of(const Real* scalar) {
  if (scalar == nullptr) return Scalar::unknown;
  if (!host_scalar_not_zero(scalar)) return Scalar::zero;
  if constexpr (std::is_floating_point_v<Real>) return *scalar == 1 ? Scalar::one : Scalar::other;
  return Scalar::other;
}
// By its bytes, where only a data type tells how many there are. A negative zero counts as different.
bool host_scalar_not_zero(const void* scalar, const Extent& extent);
inline Scalar scalar_of(const void* scalar, const Extent& extent) {
  if (scalar == nullptr) return Scalar::unknown;
  return host_scalar_not_zero(scalar, extent) ? Scalar::other : Scalar::zero;
}

// Operands whose element type is a parameter; Extent::unknown() for types that share bytes or came later.
Extent typed(cudaDataType type);
Extent typed_matrix(std::int64_t rows, std::int64_t columns, std::int64_t leading, cudaDataType type);
Extent typed_vector(std::int64_t count, std::int64_t increment, cudaDataType type);
Extent typed_batched(const Extent& one, std::int64_t stride, std::int64_t count, cudaDataType type);
// alpha and beta of a product computed as `compute` into elements of type `result`.
Extent scale_of(cublasComputeType_t compute, cudaDataType result);

// The dimensions of op(X) as it is stored.
inline std::int64_t stored_rows(cublasOperation_t op, std::int64_t rows, std::int64_t columns) {
  return op == CUBLAS_OP_N ? rows : columns;
}
inline std::int64_t stored_columns(cublasOperation_t op, std::int64_t rows, std::int64_t columns) {
  return op == CUBLAS_OP_N ? columns : rows;
}

}  // namespace pooch::interpose
