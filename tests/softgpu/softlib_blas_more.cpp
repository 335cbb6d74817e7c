// The software cuBLAS in double precision, with 64-bit sizes, on arrays of addresses, and the rest of
// level 1.
#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

template <class T>
class Array {
 public:
  explicit Array(const std::vector<T>& content) : count_(content.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, content.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;
  ~Array() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  T* data() const { return static_cast<T*>(data_); }
  std::vector<T> get() const {
    std::vector<T> result(count_);
    EXPECT_EQ(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

template <class T>
std::vector<T> numbers(std::size_t count, std::uint32_t seed) {
  const Floats plain = values(count, seed);
  return {plain.begin(), plain.end()};
}

// The calls of one precision; 32-bit sizes for float, 64-bit sizes for double.
template <class T>
struct Calls;
template <>
struct Calls<float> {
  static constexpr auto gemm = &cublasSgemm;
  static constexpr auto strided = &cublasSgemmStridedBatched;
  static constexpr auto batched = &cublasSgemmBatched;
  static constexpr auto gemv = &cublasSgemv;
  static constexpr auto ger = &cublasSger;
  static constexpr auto geam = &cublasSgeam;
  static constexpr auto dgmm = &cublasSdgmm;
  static constexpr auto tbsv = &cublasStbsv;
  static constexpr auto axpy = &cublasSaxpy;
  static constexpr auto scal = &cublasSscal;
  static constexpr auto copy = &cublasScopy;
  static constexpr auto swap = &cublasSswap;
  static constexpr auto dot = &cublasSdot;
  static constexpr auto nrm2 = &cublasSnrm2;
  static constexpr auto asum = &cublasSasum;
  static constexpr auto amax = &cublasIsamax;
  static constexpr auto amin = &cublasIsamin;
  static constexpr auto rot = &cublasSrot;
  static constexpr auto rotm = &cublasSrotm;
  static constexpr auto rotg = &cublasSrotg;
  static constexpr auto rotmg = &cublasSrotmg;
  using Index = int;
};
template <>
struct Calls<double> {
  static constexpr auto gemm = &cublasDgemm_64;
  static constexpr auto strided = &cublasDgemmStridedBatched_64;
  static constexpr auto batched = &cublasDgemmBatched_64;
  static constexpr auto gemv = &cublasDgemv_64;
  static constexpr auto ger = &cublasDger_64;
  static constexpr auto geam = &cublasDgeam_64;
  static constexpr auto dgmm = &cublasDdgmm_64;
  static constexpr auto tbsv = &cublasDtbsv_64;
  static constexpr auto axpy = &cublasDaxpy_64;
  static constexpr auto scal = &cublasDscal_64;
  static constexpr auto copy = &cublasDcopy_64;
  static constexpr auto swap = &cublasDswap_64;
  static constexpr auto dot = &cublasDdot_64;
  static constexpr auto nrm2 = &cublasDnrm2_64;
  static constexpr auto asum = &cublasDasum_64;
  static constexpr auto amax = &cublasIdamax_64;
  static constexpr auto amin = &cublasIdamin_64;
  static constexpr auto rot = &cublasDrot_64;
  static constexpr auto rotm = &cublasDrotm_64;
  static constexpr auto rotg = &cublasDrotg;
  static constexpr auto rotmg = &cublasDrotmg;
  using Index = std::int64_t;
};

template <class T>
class BlasOf : public Library {
 protected:
  static constexpr double tolerance = std::is_same_v<T, double> ? 1e-12 : 1e-5;
  const T one = 1, zero = 0;

  void expect_near(const std::vector<T>& actual, const std::vector<T>& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], expected[i], tolerance * std::max(1.0, std::abs(double{expected[i]})) * 10)
          << "at " << i;
    }
  }
};
using Precisions = ::testing::Types<float, double>;
TYPED_TEST_SUITE(BlasOf, Precisions);

constexpr int m = 7, n = 5, k = 11, batch = 3;

// C += alpha * A^T * B per batch, beta = 1; packed matrices.
template <class T>
std::vector<T> product(const std::vector<T>& a, const std::vector<T>& b, std::vector<T> c, double alpha) {
  for (int i = 0; i < batch; ++i) {
    for (int row = 0; row < m; ++row) {
      for (int column = 0; column < n; ++column) {
        double sum = 0;
        for (int j = 0; j < k; ++j) {
          sum += double{a[static_cast<std::size_t>(i * m * k + row * k + j)]} *
                 double{b[static_cast<std::size_t>(i * k * n + column * k + j)]};
        }
        T& to = c[static_cast<std::size_t>(i * m * n + column * m + row)];
        to = static_cast<T>(double{to} + alpha * sum);
      }
    }
  }
  return c;
}

TYPED_TEST(BlasOf, ProductsInAllForms) {
  using T = TypeParam;
  const auto a = numbers<T>(m * k * batch, 1);
  const auto b = numbers<T>(k * n * batch, 2);
  const auto old = numbers<T>(m * n * batch, 3);
  const T alpha = 1.5;
  const auto expected = product(a, b, old, 1.5);
  Array<T> a_device(a), b_device(b), strided(old), single(old), pointers(old);
  CUBLAS_OK(Calls<T>::strided(this->blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, a_device.data(), k,
                              m * k, b_device.data(), k, k * n, &this->one, strided.data(), m, m * n, batch));
  this->expect_near(strided.get(), expected);
  for (int i = 0; i < batch; ++i) {
    CUBLAS_OK(Calls<T>::gemm(this->blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha,
                             a_device.data() + i * m * k, k, b_device.data() + i * k * n, k, &this->one,
                             single.data() + i * m * n, m));
  }
  this->expect_near(single.get(), expected);
  std::vector<const T*> at_a, at_b;
  std::vector<T*> at_c;
  for (int i = 0; i < batch; ++i) {
    at_a.push_back(a_device.data() + i * m * k);
    at_b.push_back(b_device.data() + i * k * n);
    at_c.push_back(pointers.data() + i * m * n);
  }
  Array<const T*> list_a(at_a), list_b(at_b);
  Array<T*> list_c(at_c);
  CUBLAS_OK(Calls<T>::batched(this->blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &alpha, list_a.data(), k,
                              list_b.data(), k, &this->one, list_c.data(), m, batch));
  this->expect_near(pointers.get(), expected);
}

TYPED_TEST(BlasOf, MatrixAndVector) {
  using T = TypeParam;
  const auto a = numbers<T>(m * n, 1);
  const auto x = numbers<T>(m, 2);
  const auto y = numbers<T>(n, 3);
  const T alpha = 2;
  auto outer = a;
  std::vector<T> turned(n);
  for (int row = 0; row < m; ++row) {
    for (int column = 0; column < n; ++column) {
      const auto at = static_cast<std::size_t>(column * m + row);
      outer[at] += alpha * x[static_cast<std::size_t>(row)] * y[static_cast<std::size_t>(column)];
      turned[static_cast<std::size_t>(column)] += alpha * a[at] * x[static_cast<std::size_t>(row)];
    }
  }
  Array<T> a_device(a), x_device(x), y_device(y), result(y), sum(a);
  CUBLAS_OK(Calls<T>::gemv(this->blas, CUBLAS_OP_T, m, n, &alpha, a_device.data(), m, x_device.data(), 1,
                           &this->zero, result.data(), 1));
  this->expect_near(result.get(), turned);
  auto doubled = a;
  for (T& v : doubled) v *= 2;
  CUBLAS_OK(Calls<T>::geam(this->blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, &this->one, a_device.data(), m,
                           &this->one, a_device.data(), m, sum.data(), m));
  this->expect_near(sum.get(), doubled);
  auto scaled = a;
  for (int i = 0; i < m * n; ++i) scaled[static_cast<std::size_t>(i)] *= x[static_cast<std::size_t>(i % m)];
  CUBLAS_OK(Calls<T>::dgmm(this->blas, CUBLAS_SIDE_LEFT, m, n, a_device.data(), m, x_device.data(), 1,
                           sum.data(), m));
  this->expect_near(sum.get(), scaled);
  CUBLAS_OK(
      Calls<T>::ger(this->blas, m, n, &alpha, x_device.data(), 1, y_device.data(), 1, a_device.data(), m));
  this->expect_near(a_device.get(), outer);
}

// By multiplication: each of the eight kinds of triangle gives back what its product was made of.
TYPED_TEST(BlasOf, TriangularBands) {
  using T = TypeParam;
  constexpr int count = 9, beside = 2, lda = beside + 2;
  auto band = numbers<T>(lda * count, 1);
  for (T& v : band) v = 2 + v / 4;  // no pivot is near 0
  const auto x = numbers<T>(count, 2);
  for (int kind = 0; kind < 8; ++kind) {
    const bool upper = (kind & 1) != 0, transposed = (kind & 2) != 0, unit = (kind & 4) != 0;
    std::vector<T> product(count);
    for (int row = 0; row < count; ++row) {
      for (int column = 0; column < count; ++column) {
        const int r = transposed ? column : row, c = transposed ? row : column;
        const int below = upper ? c - r : r - c;
        if (below < 0 || below > beside) continue;
        const auto at = static_cast<std::size_t>(c * lda + (upper ? beside - below : below));
        product[static_cast<std::size_t>(row)] +=
            (unit && below == 0 ? T{1} : band[at]) * x[static_cast<std::size_t>(column)];
      }
    }
    Array<T> a_device(band), x_device(product);
    CUBLAS_OK(Calls<T>::tbsv(this->blas, upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                             transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                             unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT, count, beside, a_device.data(),
                             lda, x_device.data(), 1));
    const std::vector<T> solved = x_device.get();
    for (std::size_t i = 0; i < solved.size(); ++i)
      EXPECT_NEAR(solved[i], x[i], 1e-2 * (1 + std::abs(x[i]))) << "kind " << kind << ", " << i;
  }
  // A matrix of a diagonal alone divides.
  Array<T> divisor(std::vector<T>{2, 4, 8}), result(std::vector<T>{1, 1, 1});
  CUBLAS_OK(Calls<T>::tbsv(this->blas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, 3, 0,
                           divisor.data(), 1, result.data(), 1));
  EXPECT_EQ(result.get(), (std::vector<T>{0.5, 0.25, 0.125}));
}

TYPED_TEST(BlasOf, VectorsAndReductions) {
  using T = TypeParam;
  constexpr int count = 257;
  auto x = numbers<T>(count, 1);
  const auto y = numbers<T>(count, 2);
  x[100] = -3;
  x[200] = 3;  // the first of the largest counts
  x[50] = 0;
  const T alpha = -2;
  double dot = 0, squares = 0, absolutes = 0;
  std::vector<T> axpy(count), scal(count);
  for (std::size_t i = 0; i < count; ++i) {
    dot += double{x[i]} * double{y[i]};
    squares += double{x[i]} * double{x[i]};
    absolutes += std::abs(double{x[i]});
    axpy[i] = alpha * x[i] + y[i];
    scal[i] = alpha * x[i];
  }
  Array<T> x_device(x), y_device(y);
  T result = 0;
  CUBLAS_OK(Calls<T>::dot(this->blas, count, x_device.data(), 1, y_device.data(), 1, &result));
  EXPECT_NEAR(result, dot, this->tolerance * 100);
  CUBLAS_OK(Calls<T>::nrm2(this->blas, count, x_device.data(), 1, &result));
  EXPECT_NEAR(result, std::sqrt(squares), this->tolerance * 100);
  CUBLAS_OK(Calls<T>::asum(this->blas, count, x_device.data(), 1, &result));
  EXPECT_NEAR(result, absolutes, this->tolerance * 100);
  typename Calls<T>::Index index = 0;
  CUBLAS_OK(Calls<T>::amax(this->blas, count, x_device.data(), 1, &index));
  EXPECT_EQ(index, 101);
  CUBLAS_OK(Calls<T>::amin(this->blas, count, x_device.data(), 1, &index));
  EXPECT_EQ(index, 51);
  CUBLAS_OK(Calls<T>::amax(this->blas, 2, x_device.data() + 100, 100, &index));
  EXPECT_EQ(index, 1);
  Array<typename Calls<T>::Index> index_device({0});
  CUBLAS_OK(cublasSetPointerMode(this->blas, CUBLAS_POINTER_MODE_DEVICE));
  CUBLAS_OK(Calls<T>::amax(this->blas, count, x_device.data(), 1, index_device.data()));
  EXPECT_EQ(index_device.get()[0], 101);
  CUBLAS_OK(cublasSetPointerMode(this->blas, CUBLAS_POINTER_MODE_HOST));
  CUBLAS_OK(Calls<T>::axpy(this->blas, count, &alpha, x_device.data(), 1, y_device.data(), 1));
  this->expect_near(y_device.get(), axpy);
  CUBLAS_OK(Calls<T>::scal(this->blas, count, &alpha, x_device.data(), 1));
  this->expect_near(x_device.get(), scal);
  CUBLAS_OK(Calls<T>::swap(this->blas, count, x_device.data(), 1, y_device.data(), 1));
  this->expect_near(x_device.get(), axpy);
  this->expect_near(y_device.get(), scal);
  CUBLAS_OK(Calls<T>::copy(this->blas, count, x_device.data(), 1, y_device.data(), -1));
  std::reverse(axpy.begin(), axpy.end());
  this->expect_near(y_device.get(), axpy);
}

TYPED_TEST(BlasOf, Rotations) {
  using T = TypeParam;
  constexpr std::size_t count = 33;
  const auto x = numbers<T>(count, 1);
  const auto y = numbers<T>(count, 2);
  // A rotation made for (a, b) turns it to (r, 0).
  T a = 3, b = 4, cosine = 0, sine = 0;
  CUBLAS_OK(Calls<T>::rotg(this->blas, &a, &b, &cosine, &sine));
  EXPECT_NEAR(cosine, 0.6, 1e-6);
  EXPECT_NEAR(sine, 0.8, 1e-6);
  EXPECT_NEAR(a, 5, 1e-5);
  Array<T> made({T{3}, T{4}, T{0}, T{0}});
  Array<T> x_device(x), y_device(y);
  std::vector<T> new_x(count), new_y(count);
  for (std::size_t i = 0; i < count; ++i) {
    new_x[i] = cosine * x[i] + sine * y[i];
    new_y[i] = cosine * y[i] - sine * x[i];
  }
  CUBLAS_OK(cublasSetPointerMode(this->blas, CUBLAS_POINTER_MODE_DEVICE));
  T* on_device = made.data();
  CUBLAS_OK(Calls<T>::rotg(this->blas, on_device, on_device + 1, on_device + 2, on_device + 3));
  CUBLAS_OK(
      Calls<T>::rot(this->blas, count, x_device.data(), 1, y_device.data(), 1, on_device + 2, on_device + 3));
  CUBLAS_OK(cublasSetPointerMode(this->blas, CUBLAS_POINTER_MODE_HOST));
  this->expect_near(x_device.get(), new_x);
  this->expect_near(y_device.get(), new_y);
  // The modified one for (d1, d2, x1, y1) makes the second component 0.
  T d1 = 2, d2 = 3, x1 = 1.5, parameters[5] = {};
  const T y1 = 0.5;
  CUBLAS_OK(Calls<T>::rotmg(this->blas, &d1, &d2, &x1, &y1, parameters));
  Array<T> first({T{1.5}}), second({T{0.5}});
  CUBLAS_OK(Calls<T>::rotm(this->blas, 1, first.data(), 1, second.data(), 1, parameters));
  EXPECT_NEAR(first.get()[0], x1, 1e-6);
  EXPECT_NEAR(second.get()[0], 0, 1e-6);
  // All four numbers given, none implied.
  const T whole[5] = {-1, 1, 2, 3, 4};
  Array<T> u(x), v(y);
  CUBLAS_OK(Calls<T>::rotm(this->blas, count, u.data(), 1, v.data(), 1, whole));
  for (std::size_t i = 0; i < count; ++i) {
    new_x[i] = x[i] + 3 * y[i];
    new_y[i] = 2 * x[i] + 4 * y[i];
  }
  this->expect_near(u.get(), new_x);
  this->expect_near(v.get(), new_y);
}

class BlasEx : public Library {};

TEST_F(BlasEx, GenericFormsComputeInFloat) {
  const auto a = values(m * k * batch, 1);
  const auto b = values(k * n * batch, 2);
  const auto old = values(m * n * batch, 3);
  const Floats expected = product(a, b, old, 1.0);
  Buffer a_device(a), b_device(b), c(old);
  const auto type = CUDA_R_32F;
  CUBLAS_OK(cublasGemmStridedBatchedEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, a_device.data(), type,
                                       k, m * k, b_device.data(), type, k, k * n, &one, c.data(), type, m,
                                       m * n, batch, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  expect_close(c.get(), expected);
  Buffer first(Floats(old.begin(), old.begin() + m * n));
  CUBLAS_OK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, a_device.data(), type, k,
                         b_device.data(), type, k, &one, first.data(), type, m, CUBLAS_COMPUTE_32F_FAST_TF32,
                         CUBLAS_GEMM_DEFAULT));
  expect_close(first.get(), Floats(expected.begin(), expected.begin() + m * n));
}

// What a batched product wrote counts as written.
TEST_F(BlasEx, OutputsBehindAddressesCanBeRead) {
  Buffer a(values(m * k, 1)), b(values(k * n, 2)), c(m * n), copy(m * n);
  Array<const void*> list_a({a.data()}), list_b({b.data()});
  Array<void*> list_c({c.data()});
  CUBLAS_OK(cublasGemmBatchedEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, list_a.data(), CUDA_R_32F, k,
                                list_b.data(), CUDA_R_32F, k, &zero, list_c.data(), CUDA_R_32F, m, 1,
                                CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  CUBLAS_OK(cublasScopy(blas, m * n, c.data(), 1, copy.data(), 1));
  EXPECT_EQ(copy.get(), c.get());
}

TEST_F(BlasEx, VectorsAndMatricesTravel) {
  constexpr int rows = 4, columns = 3, wide = 6;
  const Floats host = values(wide * columns, 1);
  Buffer device(Floats(wide * columns, 0.0F));
  CUBLAS_OK(cublasSetMatrix(rows, columns, sizeof(float), host.data(), wide, device.data(), rows));
  Floats expected(wide * columns);
  for (std::size_t i = 0; i < rows * columns; ++i) expected[i] = host[i / rows * wide + i % rows];
  EXPECT_EQ(device.get(), expected);
  Floats back(wide * columns);
  CUBLAS_OK(
      cublasGetMatrixAsync(rows, columns, sizeof(float), device.data(), rows, back.data(), wide, nullptr));
  CUDA_OK(cudaDeviceSynchronize());
  for (std::size_t i = 0; i < back.size(); ++i)
    EXPECT_EQ(back[i], i % wide < rows ? host[i] : 0) << "at " << i;
  CUBLAS_OK(cublasSetVector(columns, sizeof(float), host.data(), 2, device.data(), 3));
  Floats every_third(columns);
  CUBLAS_OK(cublasGetVector_64(columns, sizeof(float), device.data(), 3, every_third.data(), 1));
  EXPECT_EQ(every_third, (Floats{host[0], host[2], host[4]}));
  CUBLAS_OK(cublasSetVectorAsync(wide, sizeof(float), host.data(), 1, device.data(), 1, nullptr));
  EXPECT_EQ(device.get()[wide - 1], host[wide - 1]);
  EXPECT_EQ(cublasSetMatrix(rows, columns, sizeof(float), host.data(), rows - 1, device.data(), rows),
            CUBLAS_STATUS_INVALID_VALUE);
}

}  // namespace
}  // namespace softlib
