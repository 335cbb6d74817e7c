// What every layer needs: streams, handles, memory, and the algorithms to use.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <map>
#include <utility>
#include <vector>

#include "memory.h"

namespace train {

// Deterministic algorithms only. Named, so that every run takes the same; or the fastest in trials, whose
// choice is as repeatable as the device's times.
struct Algorithms {
  cudnnConvolutionFwdAlgo_t forward = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
  cudnnConvolutionBwdDataAlgo_t backward_data = CUDNN_CONVOLUTION_BWD_DATA_ALGO_1;
  cudnnConvolutionBwdFilterAlgo_t backward_filter = CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;
  bool trials = false;
};

// Streams and library handles, in the order in which they must come and go.
class Handles {
 public:
  Handles();
  ~Handles();
  Handles(const Handles&) = delete;
  Handles& operator=(const Handles&) = delete;

  cudaStream_t compute = nullptr;
  cudaStream_t copy = nullptr;
  cudnnHandle_t cudnn = nullptr;
  cublasHandle_t cublas = nullptr;
};

class Context {
 public:
  Context(Memory::Kind kind, const Algorithms& algorithms)
      : memory(kind, handles_.compute), algorithms(algorithms) {}
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  cudaStream_t compute() const { return handles_.compute; }
  cudaStream_t copy() const { return handles_.copy; }
  cudnnHandle_t cudnn() const { return handles_.cudnn; }
  cublasHandle_t cublas() const { return handles_.cublas; }

  // A descriptor of packed floats, or of a tensor as it lies; made at first use and kept.
  cudnnTensorDescriptor_t descriptor(Shape shape) { return descriptor(shape, shape.image_count()); }
  cudnnTensorDescriptor_t descriptor(const Tensor& tensor) {
    return descriptor(tensor.shape(), tensor.image_stride());
  }
  // Copies host floats into a new tensor and waits for the copy.
  Tensor upload(const float* values, Shape shape);
  // The floats of a packed tensor, when the compute stream has made them.
  std::vector<float> download(const Tensor& tensor);

 private:
  cudnnTensorDescriptor_t descriptor(Shape shape, std::size_t image_stride);

  Handles handles_;
  std::map<std::pair<Shape, std::size_t>, cudnnTensorDescriptor_t> descriptors_;  // by shape and image stride

 public:
  Memory memory;
  const Algorithms algorithms;
  std::map<std::vector<int>, int> found_algorithms;  // by trials, which only trials.cpp makes
};

// The blend factors of cuDNN and cuBLAS.
inline constexpr float one = 1.0F;
inline constexpr float zero = 0.0F;

}  // namespace train
