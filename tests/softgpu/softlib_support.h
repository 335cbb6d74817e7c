// Common parts of the tests of the software GPU's libraries: device buffers, reproducible values, shorthands.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#define CUDA_OK(call) ASSERT_EQ(call, cudaSuccess)
#define CUDNN_OK(call) ASSERT_EQ(call, CUDNN_STATUS_SUCCESS)
#define CUBLAS_OK(call) ASSERT_EQ(call, CUBLAS_STATUS_SUCCESS)

namespace softlib {

using Floats = std::vector<float>;

// Values between -1 and 1, the same for the same seed everywhere.
inline Floats values(std::size_t count, std::uint32_t seed) {
  Floats result(count);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (float& v : result) {
    state = state * 1664525U + 1013904223U;
    v = static_cast<float>(static_cast<double>(state >> 8) / 8388608.0 - 1.0);
  }
  return result;
}

// Floats in device memory, `shift` floats behind the start of the allocation.
class Buffer {
 public:
  explicit Buffer(std::size_t count, std::size_t shift = 0) : count_(count), shift_(shift) {
    EXPECT_EQ(cudaMalloc(&base_, (count + shift + 1) * sizeof(float)), cudaSuccess);
  }
  explicit Buffer(const Floats& content, std::size_t shift = 0) : Buffer(content.size(), shift) {
    set(content);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { EXPECT_EQ(cudaFree(base_), cudaSuccess); }

  float* data() const { return static_cast<float*>(base_) + shift_; }
  void set(const Floats& content) {
    EXPECT_EQ(cudaMemcpy(data(), content.data(), content.size() * sizeof(float), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  Floats get() const {
    Floats result(count_);
    EXPECT_EQ(cudaMemcpy(result.data(), data(), count_ * sizeof(float), cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }

 private:
  std::size_t count_, shift_;
  void* base_ = nullptr;
};

class Tensor {
 public:
  Tensor(int n, int c, int h, int w) : count_(static_cast<std::size_t>(n) * c * h * w) {
    EXPECT_EQ(cudnnCreateTensorDescriptor(&desc_), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(desc_, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w),
              CUDNN_STATUS_SUCCESS);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() { cudnnDestroyTensorDescriptor(desc_); }
  operator cudnnTensorDescriptor_t() const { return desc_; }
  std::size_t count() const { return count_; }

 private:
  std::size_t count_;
  cudnnTensorDescriptor_t desc_ = nullptr;
};

// `actual` within `tolerance` of `expected`, relative to the largest expected value.
inline void expect_close(const Floats& actual, const Floats& expected, double tolerance = 1e-5) {
  ASSERT_EQ(actual.size(), expected.size());
  double largest = 1;
  for (float v : expected) largest = std::max(largest, std::abs(static_cast<double>(v)));
  for (std::size_t i = 0; i < actual.size(); ++i) {
    ASSERT_NEAR(actual[i], expected[i], tolerance * largest) << "at " << i;
  }
}

inline double dot(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

// A test with both handles; afterwards the device must be without an error.
class Library : public ::testing::Test {
 protected:
  void SetUp() override {
    CUDNN_OK(cudnnCreate(&dnn));
    CUBLAS_OK(cublasCreate(&blas));
  }
  void TearDown() override {
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cublasDestroy(blas), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cudnnDestroy(dnn), CUDNN_STATUS_SUCCESS);
  }
  cudnnHandle_t dnn = nullptr;
  cublasHandle_t blas = nullptr;
  const float one = 1, zero = 0;
};

}  // namespace softlib
