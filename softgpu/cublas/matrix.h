// Kernels on matrices, column-major, for float and double.
#pragma once

#include "softgpu/cublas/handle.h"

namespace softgpu::cublas {

// C = alpha * op(A) * op(B) + beta * C, for each of a strided batch. Pointers: A, B, C, alpha, beta.
template <class T>
struct Gemm {
  static constexpr const char* name = by_precision<T>("sgemm", "dgemm");
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose_a, transpose_b;
    std::int64_t m, n, k;
    std::int64_t lda, ldb, ldc;
    std::int64_t stride_a, stride_b, stride_c, batch;
    Scalar<T> alpha, beta;

    bool reads_inputs() const { return !alpha.zero() && k > 0; }
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// y = alpha * op(A) * x + beta * y. Pointers: A, x, y, alpha, beta.
template <class T>
struct Gemv {
  static constexpr const char* name = by_precision<T>("sgemv", "dgemv");
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose;
    std::int64_t m, n, lda, incx, incy;
    Scalar<T> alpha, beta;

    std::int64_t x_count() const { return transpose ? m : n; }
    std::int64_t y_count() const { return transpose ? n : m; }
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// C = alpha * op(A) + beta * op(B). Pointers: A, B, C, alpha, beta; C may be A or B where that is not
// transposed.
template <class T>
struct Geam {
  static constexpr const char* name = by_precision<T>("sgeam", "dgeam");
  static constexpr std::size_t pointers = 5;
  struct Args {
    std::int32_t transpose_a, transpose_b;
    std::int64_t m, n, lda, ldb, ldc;
    Scalar<T> alpha, beta;
  };
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

// C = diag(x) * A (left) or A * diag(x). Pointers: A, x, C.
template <class T>
struct Dgmm {
  static constexpr const char* name = by_precision<T>("sdgmm", "ddgmm");
  static constexpr std::size_t pointers = 3;
  struct Args {
    std::int32_t left;
    std::int64_t m, n, lda, incx, ldc;
  };
  static void footprint(const Pointers<3>& p, const Args& a, Footprint& out);
  static void run(const Pointers<3>& p, const Args& a);
};

// Solves op(A) * y = x for a triangular band matrix, with y in the place of x. Pointers: A, x.
template <class T>
struct Tbsv {
  static constexpr const char* name = by_precision<T>("stbsv", "dtbsv");
  static constexpr std::size_t pointers = 2;
  struct Args {
    std::int32_t upper, transpose, unit_diagonal;
    std::int64_t n, k, lda, incx;  // k: diagonals beside the main one
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

// A = alpha * x * y^T + A. Pointers: x, y, A, alpha.
template <class T>
struct Ger {
  static constexpr const char* name = by_precision<T>("sger", "dger");
  static constexpr std::size_t pointers = 4;
  struct Args {
    std::int64_t m, n, incx, incy, lda;
    Scalar<T> alpha;
  };
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

// Gemm on matrices whose addresses lie in three arrays in device memory. Where device memory has content
// (compute mode) the matrices are checked like any operand; in timing mode only the arrays are, since their
// content is unknown, and what the call writes counts as unwritten. Pointers: arrays of A, B, C; alpha, beta.
template <class T>
struct GemmBatched {
  static constexpr const char* name = by_precision<T>("sgemm_batched", "dgemm_batched");
  static constexpr std::size_t pointers = 5;
  using Args = typename Gemm<T>::Args;
  static void footprint(const Pointers<5>& p, const Args& a, Footprint& out);
  static void run(const Pointers<5>& p, const Args& a);
};

}  // namespace softgpu::cublas
