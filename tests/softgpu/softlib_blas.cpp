// The software cuBLAS against plain loops.
#include <cmath>
#include <limits>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

class Blas : public Library {};

// op(M)[row, column] of a column-major matrix.
double at(const Floats& m, int leading, cublasOperation_t op, int row, int column) {
  return op == CUBLAS_OP_N ? m[static_cast<std::size_t>(row + column * leading)]
                           : m[static_cast<std::size_t>(column + row * leading)];
}

TEST_F(Blas, GemmInAllOrders) {
  constexpr int m = 17, n = 13, k = 29, batch = 3;
  for (auto op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (auto op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      const int lda = (op_a == CUBLAS_OP_N ? m : k) + 3;
      const int ldb = (op_b == CUBLAS_OP_N ? k : n) + 1;
      const int ldc = m + 2;
      const int stride_a = lda * (op_a == CUBLAS_OP_N ? k : m);
      const int stride_b = ldb * (op_b == CUBLAS_OP_N ? n : k);
      const int stride_c = ldc * n;
      const Floats a = values(static_cast<std::size_t>(stride_a) * batch, 1);
      const Floats b = values(static_cast<std::size_t>(stride_b) * batch, 2);
      const Floats old = values(static_cast<std::size_t>(stride_c) * batch, 3);
      const float alpha = 1.5;
      for (float beta : {0.0F, 0.5F}) {
        Floats expected = old;
        for (int i = 0; i < batch; ++i) {
          const Floats a_i(a.begin() + i * stride_a, a.begin() + (i + 1) * stride_a);
          const Floats b_i(b.begin() + i * stride_b, b.begin() + (i + 1) * stride_b);
          for (int row = 0; row < m; ++row) {
            for (int column = 0; column < n; ++column) {
              double sum = 0;
              for (int j = 0; j < k; ++j) sum += at(a_i, lda, op_a, row, j) * at(b_i, ldb, op_b, j, column);
              float& c = expected[static_cast<std::size_t>(i * stride_c + row + column * ldc)];
              c = static_cast<float>(alpha * sum + beta * c);
            }
          }
        }
        Buffer a_device(a), b_device(b), c_device(old), c_single(old);
        CUBLAS_OK(cublasSgemmStridedBatched(blas, op_a, op_b, m, n, k, &alpha, a_device.data(), lda, stride_a,
                                            b_device.data(), ldb, stride_b, &beta, c_device.data(), ldc,
                                            stride_c, batch));
        expect_close(c_device.get(), expected);
        CUBLAS_OK(cublasSgemm(blas, op_a, op_b, m, n, k, &alpha, a_device.data(), lda, b_device.data(), ldb,
                              &beta, c_single.data(), ldc));
        Floats first = old;
        std::copy(expected.begin(), expected.begin() + stride_c, first.begin());
        expect_close(c_single.get(), first);
      }
    }
  }
}

TEST_F(Blas, GemmBitsDoNotDependOnAddresses) {
  constexpr int m = 64, n = 50, k = 300;
  Floats results[3];
  for (std::size_t shift = 0; shift < 3; ++shift) {
    Buffer a(values(m * k, 1), shift), b(values(k * n, 2), shift), c(m * n, shift);
    CUBLAS_OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a.data(), m, b.data(), k, &zero,
                          c.data(), m));
    results[shift] = c.get();
  }
  EXPECT_EQ(results[1], results[0]);
  EXPECT_EQ(results[2], results[0]);
}

TEST_F(Blas, GemvBothWaysAndBits) {
  constexpr int m = 37, n = 23;
  const Floats a = values(m * n, 1);
  const float alpha = 2;
  const float beta = 0.5;
  for (auto op : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    const int rows = op == CUBLAS_OP_N ? m : n;
    const int columns = op == CUBLAS_OP_N ? n : m;
    const Floats x = values(static_cast<std::size_t>(columns), 2);
    const Floats old = values(static_cast<std::size_t>(rows) * 2, 3);
    Floats expected = old;
    for (int row = 0; row < rows; ++row) {
      double sum = 0;
      for (int j = 0; j < columns; ++j) sum += at(a, m, op, row, j) * x[static_cast<std::size_t>(j)];
      float& y = expected[static_cast<std::size_t>(row) * 2];
      y = static_cast<float>(alpha * sum + beta * y);
    }
    Floats first;
    for (std::size_t shift = 0; shift < 4; ++shift) {
      Buffer a_device(a, shift), x_device(x, shift), y_device(old, shift);
      CUBLAS_OK(cublasSgemv(blas, op, m, n, &alpha, a_device.data(), m, x_device.data(), 1, &beta,
                            y_device.data(), 2));
      expect_close(y_device.get(), expected);
      if (shift == 0) first = y_device.get();
      EXPECT_EQ(y_device.get(), first);
    }
    // With beta = 0 what was there does not count, not even NaN.
    Buffer a_device(a), x_device(x);
    Buffer y_device(Floats(static_cast<std::size_t>(rows), std::numeric_limits<float>::quiet_NaN()));
    CUBLAS_OK(cublasSgemv(blas, op, m, n, &alpha, a_device.data(), m, x_device.data(), 1, &zero,
                          y_device.data(), 1));
    for (float v : y_device.get()) EXPECT_FALSE(std::isnan(v));
  }
}

TEST_F(Blas, GeamAddsTransposesAndCopies) {
  constexpr int m = 5, n = 7;
  const Floats a = values(m * n, 1);
  const Floats b = values(m * n, 2);
  const float alpha = 2;
  const float beta = -1;
  Floats expected(m * n);
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      expected[static_cast<std::size_t>(row + column * m)] = static_cast<float>(
          alpha * at(a, n, CUBLAS_OP_T, row, column) + beta * at(b, m, CUBLAS_OP_N, row, column));
    }
  }
  Buffer a_device(a), b_device(b), never_written(m * n), c(m * n);
  CUBLAS_OK(cublasSgeam(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, &alpha, a_device.data(), n, &beta,
                        b_device.data(), m, c.data(), m));
  expect_close(c.get(), expected);
  // The matrix with factor 0 is not read.
  CUBLAS_OK(cublasSgeam(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, &one, a_device.data(), m, &zero,
                        never_written.data(), m, c.data(), m));
  EXPECT_EQ(c.get(), a);
  // In place.
  CUBLAS_OK(cublasSgeam(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, &one, c.data(), m, &one, b_device.data(), m,
                        c.data(), m));
  Floats sum(m * n);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a[i] + b[i];
  expect_close(c.get(), sum);
  EXPECT_EQ(
      cublasSgeam(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, m, &one, c.data(), m, &zero, c.data(), m, c.data(), m),
      CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(Blas, Dgmm) {
  constexpr int m = 4, n = 6;
  const Floats a = values(m * n, 1);
  const Floats x = values(12, 2);
  for (auto side : {CUBLAS_SIDE_LEFT, CUBLAS_SIDE_RIGHT}) {
    Floats expected(m * n);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = a[i] * x[2 * (side == CUBLAS_SIDE_LEFT ? i % m : i / m)];
    }
    Buffer a_device(a), x_device(x);
    CUBLAS_OK(cublasSdgmm(blas, side, m, n, a_device.data(), m, x_device.data(), 2, a_device.data(), m));
    expect_close(a_device.get(), expected);
  }
}

TEST_F(Blas, VectorsInBothPointerModes) {
  constexpr int n = 1001;
  const Floats x = values(n, 1);
  const Floats y = values(n, 2);
  const float alpha = -1.5;
  Floats axpy(n), scal(n);
  double absolutes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    axpy[i] = alpha * x[i] + y[i];
    scal[i] = alpha * x[i];
    absolutes += std::abs(x[i]);
  }
  Buffer alpha_device(Floats{alpha}), result_device(1);
  for (auto mode : {CUBLAS_POINTER_MODE_HOST, CUBLAS_POINTER_MODE_DEVICE}) {
    const bool host = mode == CUBLAS_POINTER_MODE_HOST;
    CUBLAS_OK(cublasSetPointerMode(blas, mode));
    const float* a = host ? &alpha : alpha_device.data();
    Buffer x_device(x), y_device(y), copy(n);
    float on_host = 0;
    float* to = host ? &on_host : result_device.data();
    const auto result = [&] { return host ? on_host : result_device.get()[0]; };
    CUBLAS_OK(cublasSdot(blas, n, x_device.data(), 1, y_device.data(), 1, to));
    EXPECT_NEAR(result(), dot(x, y), 1e-4);
    CUBLAS_OK(cublasSnrm2(blas, n, x_device.data(), 1, to));
    EXPECT_NEAR(result(), std::sqrt(dot(x, x)), 1e-4);
    CUBLAS_OK(cublasSasum(blas, n, x_device.data(), 1, to));
    EXPECT_NEAR(result(), absolutes, 1e-3);
    CUBLAS_OK(cublasSaxpy(blas, n, a, x_device.data(), 1, y_device.data(), 1));
    expect_close(y_device.get(), axpy);
    CUBLAS_OK(cublasSscal(blas, n, a, x_device.data(), 1));
    expect_close(x_device.get(), scal);
    CUBLAS_OK(cublasScopy(blas, n, x_device.data(), 1, copy.data(), 1));
    EXPECT_EQ(copy.get(), x_device.get());
  }
}

TEST_F(Blas, RefusesBadArguments) {
  EXPECT_EQ(cublasSgemm(nullptr, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, nullptr, 1, nullptr, 1, &zero,
                        nullptr, 1),
            CUBLAS_STATUS_NOT_INITIALIZED);
  Buffer a(16);
  EXPECT_EQ(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a.data(), 3, a.data(), 4, &zero,
                        a.data(), 4),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_STREQ(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE), "CUBLAS_STATUS_INVALID_VALUE");
}

}  // namespace
}  // namespace softlib
