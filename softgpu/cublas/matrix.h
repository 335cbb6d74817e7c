// Kernels on matrices, column-major.
#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// C = alpha * op(A) * op(B) + beta * C, for each of a strided batch. Pointers: A, B, C, alpha, beta.
struct Gemm {
  static constexpr const char* name = "sgemm";
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose_a, transpose_b;
    std::int64_t m, n, k;
    std::int64_t lda, ldb, ldc;
    std::int64_t stride_a, stride_b, stride_c, batch;
    Scalar alpha, beta;

    bool reads_inputs() const { return !alpha.zero() && k > 0; }
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// y = alpha * op(A) * x + beta * y. Pointers: A, x, y, alpha, beta.
struct Gemv {
  static constexpr const char* name = "sgemv";
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose;
    std::int64_t m, n, lda, incx, incy;
    Scalar alpha, beta;

    std::int64_t x_count() const { return transpose ? m : n; }
    std::int64_t y_count() const { return transpose ? n : m; }
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// C = alpha * op(A) + beta * op(B). Pointers: A, B, C, alpha, beta; C may be A or B where that is not
// transposed.
struct Geam {
  static constexpr const char* name = "sgeam";
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose_a, transpose_b;
    std::int64_t m, n, lda, ldb, ldc;
    Scalar alpha, beta;
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// C = diag(x) * A (left) or A * diag(x). Pointers: A, x, C.
struct Dgmm {
  static constexpr const char* name = "sdgmm";
  static constexpr std::size_t pointers = 3;
  struct Args {
    std::int32_t left;
    std::int64_t m, n, lda, incx, ldc;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

}  // namespace softgpu::cublas
