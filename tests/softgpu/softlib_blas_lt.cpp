// The software cuBLASLt, and products of narrow types in the software cuBLAS.
#include <cublasLt.h>

#include <algorithm>
#include <cmath>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

constexpr int m = 5, n = 3, k = 4;

// Halves, of which these are exact: small multiples of 1/8.
std::vector<_Float16> halves(std::size_t count, std::uint32_t seed) {
  const Floats plain = values(count, seed);
  std::vector<_Float16> result;
  for (const float value : plain) result.push_back(static_cast<_Float16>(std::round(value * 8) / 8));
  return result;
}

// A vector of any type in device memory.
template <class T>
class Device {
 public:
  explicit Device(const std::vector<T>& content) : count_(content.size()) {
    EXPECT_EQ(cudaMalloc(&data_, count_ * sizeof(T)), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(data_, content.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { EXPECT_EQ(cudaFree(data_), cudaSuccess); }
  void* data() const { return data_; }
  Floats get() const {
    std::vector<T> result(count_);
    EXPECT_EQ(cudaMemcpy(result.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return Floats(result.begin(), result.end());
  }

 private:
  std::size_t count_;
  void* data_ = nullptr;
};

// op(A) * B, column-major, A stored k by m where it is transposed.
template <class A, class B>
Floats product(const std::vector<A>& a, const std::vector<B>& b, bool transposed) {
  Floats result(static_cast<std::size_t>(m) * n);
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t row = 0; row < m; ++row) {
      double sum = 0;
      for (std::size_t i = 0; i < k; ++i)
        sum += static_cast<double>(a[transposed ? row * k + i : i * m + row]) *
               static_cast<double>(b[column * k + i]);
      result[column * m + row] = static_cast<float>(sum);
    }
  }
  return result;
}

// Handles and descriptors of one product of halves.
class Lt : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUBLAS_OK(cublasLtCreate(&lt));
    CUBLAS_OK(cublasLtMatmulDescCreate(&matmul, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    CUBLAS_OK(cublasLtMatrixLayoutCreate(&layout_a, CUDA_R_16F, k, m, k));
    CUBLAS_OK(cublasLtMatrixLayoutCreate(&layout_b, CUDA_R_16F, k, n, k));
    CUBLAS_OK(cublasLtMatrixLayoutCreate(&layout_d, CUDA_R_32F, m, n, m));
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  }
  void TearDown() override {
    for (cublasLtMatrixLayout_t layout : {layout_a, layout_b, layout_d})
      CUBLAS_OK(cublasLtMatrixLayoutDestroy(layout));
    CUBLAS_OK(cublasLtMatmulDescDestroy(matmul));
    CUBLAS_OK(cublasLtDestroy(lt));
    Library::TearDown();
  }
  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    CUBLAS_OK(cublasLtMatmulDescSetAttribute(matmul, attribute, &value, sizeof value));
  }
  cublasStatus_t choose(int* count) {
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatmulHeuristicResult_t result{};
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(lt, matmul, layout_a, layout_b, layout_d,
                                                                 layout_d, preference, 1, &result, count);
    EXPECT_EQ(cublasLtMatmulPreferenceDestroy(preference), CUBLAS_STATUS_SUCCESS);
    return status;
  }
  cublasStatus_t multiply(float alpha, float beta, void* d) {
    return cublasLtMatmul(lt, matmul, &alpha, a.data(), layout_a, b.data(), layout_b, &beta, d, layout_d, d,
                          layout_d, nullptr, nullptr, 0, nullptr);
  }

  cublasLtHandle_t lt = nullptr;
  cublasLtMatmulDesc_t matmul = nullptr;
  cublasLtMatrixLayout_t layout_a = nullptr, layout_b = nullptr, layout_d = nullptr;
  const std::vector<_Float16> values_a = halves(m * k, 1), values_b = halves(k * n, 2);
  Device<_Float16> a{values_a}, b{values_b};
};

TEST_F(Lt, ProductsBlendWithWhatIsThere) {
  Device<float> d(Floats(m * n, 2.0F));
  CUBLAS_OK(multiply(3, 0.5F, d.data()));
  Floats expected = product(values_a, values_b, true);
  for (float& value : expected) value = 3 * value + 1;
  expect_close(d.get(), expected);
}

TEST_F(Lt, ABiasHasAValuePerRowAndReluComesAfterIt) {
  const Floats bias = values(m, 3);
  Device<float> device_bias(bias), d(Floats(m * n));
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_RELU_BIAS);
  set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(device_bias.data()));
  CUBLAS_OK(multiply(1, 0, d.data()));
  Floats expected = product(values_a, values_b, true);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(0.0F, expected[i] + bias[i % m]);
  expect_close(d.get(), expected);
}

TEST_F(Lt, AnEpilogueThatIsNotThereHasNoAlgorithm) {
  int count = -1;
  CUBLAS_OK(choose(&count));
  EXPECT_EQ(count, 1);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DGELU_BGRAD);
  EXPECT_EQ(choose(&count), CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(count, 0);
  Device<float> d(Floats(m * n));
  EXPECT_EQ(multiply(1, 0, d.data()), CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(Lt, SizesThatDoNotFitAreRefused) {
  const std::uint64_t rows = m + 1;
  CUBLAS_OK(cublasLtMatrixLayoutSetAttribute(layout_d, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows));
  Device<float> d(Floats((m + 1) * n));
  EXPECT_EQ(multiply(1, 0, d.data()), CUBLAS_STATUS_INVALID_VALUE);
}

TEST_F(Lt, DescriptorsTellWhatTheyWereGiven) {
  std::uint64_t columns = 0;
  std::size_t written = 0;
  CUBLAS_OK(cublasLtMatrixLayoutGetAttribute(layout_b, CUBLASLT_MATRIX_LAYOUT_COLS, &columns, sizeof columns,
                                             &written));
  EXPECT_EQ(columns, static_cast<std::uint64_t>(n));
  EXPECT_EQ(written, sizeof columns);
  std::int32_t operation = 0;
  CUBLAS_OK(cublasLtMatmulDescGetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &operation, sizeof operation,
                                           nullptr));
  EXPECT_EQ(operation, CUBLAS_OP_T);
  EXPECT_EQ(cublasLtMatmulDescSetAttribute(matmul, CUBLASLT_MATMUL_DESC_TRANSA, &operation, 1),
            CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &columns,
                                           sizeof columns, &written),
            CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_F(Lt, HalvesAndTheirTransposesInCublas) {
  Device<_Float16> d(std::vector<_Float16>(m * n, static_cast<_Float16>(1)));
  CUBLAS_OK(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, a.data(), CUDA_R_16F, k, b.data(),
                         CUDA_R_16F, k, &one, d.data(), CUDA_R_16F, m, CUBLAS_COMPUTE_32F,
                         CUBLAS_GEMM_DEFAULT));
  Floats expected = product(values_a, values_b, true);
  for (float& value : expected) value += 1;
  expect_close(d.get(), expected, 1e-3);
}

TEST_F(Lt, BatchesOfBfloatsInCublas) {
  // The upper halves of floats: exact for these values.
  const auto narrow = [](const std::vector<_Float16>& wide) {
    std::vector<std::uint16_t> bits;
    for (const _Float16 value : wide) {
      const auto whole = static_cast<float>(value);
      std::uint32_t word = 0;
      std::memcpy(&word, &whole, sizeof word);
      bits.push_back(static_cast<std::uint16_t>(word >> 16));
    }
    return bits;
  };
  const auto first = halves(m * k, 4), second = halves(m * k, 5);
  std::vector<_Float16> both = first;
  both.insert(both.end(), second.begin(), second.end());
  Device<std::uint16_t> device_a(narrow(both)), device_b(narrow(values_b));
  Device<float> d(Floats(2 * m * n));
  CUBLAS_OK(cublasGemmStridedBatchedEx(
      blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, device_a.data(), CUDA_R_16BF, m, m * k, device_b.data(),
      CUDA_R_16BF, k, 0, &zero, d.data(), CUDA_R_32F, m, m * n, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
  Floats expected = product(first, values_b, false);
  const Floats more = product(second, values_b, false);
  expected.insert(expected.end(), more.begin(), more.end());
  expect_close(d.get(), expected);
}

TEST_F(Lt, AnIntegerProductIsNotThere) {
  Device<float> d(Floats(m * n));
  EXPECT_EQ(
      cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, m, n, k, &one, a.data(), CUDA_R_8I, k, b.data(), CUDA_R_8I,
                   k, &zero, d.data(), CUDA_R_32I, m, CUBLAS_COMPUTE_32I, CUBLAS_GEMM_DEFAULT),
      CUBLAS_STATUS_NOT_SUPPORTED);
}

}  // namespace
}  // namespace softlib
