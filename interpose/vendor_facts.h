// What has to be asked of cuDNN and cuBLAS about a call: the stream, sizes behind descriptors, the type of
// scalars.
#pragma once

#include <cublas_v2.h>
#include <cudnn.h>

#include "core/ids.h"
#include "interpose/call_builder.h"
#include "interpose/extent.h"
#include "interpose/scope.h"

namespace pooch::interpose {

// --- cuDNN
StreamHandle cudnn_stream(const Scope& scope, cudnnHandle_t handle);
// From the first to the last element; Extent::unknown() where cuDNN does not say.
Extent tensor_extent(const Scope& scope, cudnnTensorDescriptor_t tensor);
Extent filter_extent(const Scope& scope, cudnnFilterDescriptor_t filter);
// Is the blending factor different from zero? It is a double where `tensor` holds doubles, else a float. A
// scalar that cannot be judged counts as different.
bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnTensorDescriptor_t tensor);
bool scalar_not_zero(const Scope& scope, const void* scalar, cudnnFilterDescriptor_t filter);

// --- cuBLAS
StreamHandle cublas_stream(const Scope& scope, cublasHandle_t handle);
// Scalars and scalar results lie in device memory.
bool cublas_scalars_on_device(const Scope& scope, cublasHandle_t handle);
// The workspace that the program gave to this handle: every call may use it.
void add_cublas_workspace(CallBuilder& call, cublasHandle_t handle);

template <class Scalar>
bool host_scalar_not_zero(const Scalar* scalar) {
  return scalar == nullptr || *scalar != Scalar{};
}

// The dimensions of op(X) as it is stored.
inline std::int64_t stored_rows(cublasOperation_t op, std::int64_t rows, std::int64_t columns) {
  return op == CUBLAS_OP_N ? rows : columns;
}
inline std::int64_t stored_columns(cublasOperation_t op, std::int64_t rows, std::int64_t columns) {
  return op == CUBLAS_OP_N ? columns : rows;
}

}  // namespace pooch::interpose
