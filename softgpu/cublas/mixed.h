// Products of matrices of any real floating-point type, each of its own, with what cuBLASLt may do to the
// result.
#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// Bytes of an element; 0: a type that MixedGemm does not know. It knows those of 16, 32 and 64 bits.
std::int64_t element_bytes(std::int32_t type);

enum class Activation : std::int32_t { none, relu, gelu };

// D = activation(alpha * op(A) * op(B) + beta * C + bias) for each of a strided batch, column-major; the bias
// has a value per row. Pointers: A, B, C, D, bias (null: none), alpha, beta. Everything is computed in double
// and rounded once.
struct MixedGemm {
  static constexpr const char* name = "gemm";
  static constexpr std::size_t pointers = 7;
  struct Matrix {
    std::int32_t type;     // cudaDataType
    std::int32_t padding;  // no bytes without a value: parameters are compared
    std::int64_t leading, stride;
  };
  struct Args {
    std::int32_t transpose_a, transpose_b;
    std::int64_t m, n, k, batch;
    Matrix a, b, c, d;
    std::int32_t bias_type;
    Activation activation;
    std::int64_t bias_stride;
    std::int32_t scalar_type, scalars_on_device;
    double alpha, beta;  // where they are the host's

    bool reads_inputs() const { return (scalars_on_device || alpha != 0) && k > 0; }
    bool reads_c() const { return scalars_on_device || beta != 0; }
  };
  static void footprint(const Pointers<7>& p, const Args& a, Footprint& out);
  static void run(const Pointers<7>& p, const Args& a);
};

// A scalar of the host's; 0 for types of no floating point.
double host_scalar(const void* at, std::int32_t type);

}  // namespace softgpu::cublas
