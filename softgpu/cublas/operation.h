// What the calls on matrices check.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

inline bool known(cublasOperation_t op) {
  return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}
inline std::int32_t transposes(cublasOperation_t op) {
  return op == CUBLAS_OP_N ? 0 : 1;
}
inline std::int64_t at_least_one(std::int64_t size) {
  return std::max<std::int64_t>(size, 1);
}
// OpenBLAS counts in 32 bits.
inline bool too_large(std::initializer_list<std::int64_t> sizes) {
  return std::max(sizes) > std::numeric_limits<std::int32_t>::max();
}

}  // namespace softgpu::cublas
