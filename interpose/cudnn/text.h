// What the program's cuDNN descriptors say of tensors and filters.
#pragma once

#include <cudnn.h>

#include <array>
#include <cstdint>

#include "interpose/hooks/libraries.h"

namespace pooch::interpose {

using Numbers = std::array<int, CUDNN_DIM_MAX>;

// Bytes of an element; 0 for packed vector types and those that came later: their layout is not judged.
std::uint64_t element_bytes(cudnnDataType_t type);

struct TensorText {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int rank = 0;  // at most CUDNN_DIM_MAX
  Numbers dimensions{}, strides{};

  bool read(const Scope& scope, cudnnTensorDescriptor_t from);
};

struct FilterText {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
  int rank = 0;  // at most CUDNN_DIM_MAX
  Numbers dimensions{};

  bool read(const Scope& scope, cudnnFilterDescriptor_t from);
};

struct ConvolutionText {
  static constexpr int most_dimensions = 3;
  using Extents = std::array<std::int32_t, most_dimensions>;

  int rank = 0;  // at most most_dimensions
  Extents padding{}, stride{}, dilation{};
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  int groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;

  bool read(const Scope& scope, cudnnConvolutionDescriptor_t from);
};

}  // namespace pooch::interpose
