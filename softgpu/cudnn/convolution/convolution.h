// Convolutions: what one is, what its algorithms need, and its kernels.
#pragma once

#include <cudnn.h>

#include <vector>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/cudnn/elements/layout.h"
#include "softgpu/cudnn/ops/activation.h"

namespace softgpu::cudnn {

inline constexpr int max_conv_spatial = 3;

// All sizes in elements.
struct ConvShape {
  std::int32_t spatial;  // 2 or 3; entries beyond are unused and zero
  std::int32_t flipped;  // CUDNN_CONVOLUTION: the filter is mirrored
  std::int64_t n, c, k, groups;
  std::int64_t in[max_conv_spatial], out[max_conv_spatial], kernel[max_conv_spatial];
  std::int64_t stride[max_conv_spatial], padding[max_conv_spatial], dilation[max_conv_spatial];
};

std::int64_t filter_elements(const ConvShape& s);
// Multiplications and additions of the direct method.
double direct_flops(const ConvShape& s);

enum class ConvDirection : std::uint8_t { forward, backward_data, backward_filter };

// What an algorithm means for one shape.
struct ConvAlgorithm {
  bool supported = false;
  bool deterministic = true;
  std::size_t workspace = 0;  // bytes
  double flops = 0;           // arithmetic that it does
};
// `algorithm` is a value of the direction's own enumeration.
ConvAlgorithm describe_algorithm(ConvDirection direction, int algorithm, const ConvShape& shape);
int algorithm_count(ConvDirection direction);
// All of them, the best first by a heuristic that measures nothing: the least arithmetic, then the least
// memory; what is not supported last.
std::vector<int> ranked_algorithms(ConvDirection direction, const ConvShape& shape);

struct ConvArgs {
  ConvShape shape;
  Layout x, w, y;        // of input, filter (K, C / groups, kernel) and output, or their gradients
  cudnnDataType_t type;  // of all three; arithmetic is in float
  std::uint64_t workspace_bytes;
  double flops;
  float alpha, beta;
};

// Pointers: x, w, y, workspace.
struct ConvForward {
  static constexpr const char* name = "convolution_forward";
  static constexpr std::size_t pointers = 4;
  using Args = ConvArgs;
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

// Pointers: w, dy, dx, workspace.
struct ConvBackwardData {
  static constexpr const char* name = "convolution_backward_data";
  static constexpr std::size_t pointers = 4;
  using Args = ConvArgs;
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

// Pointers: x, dy, dw, workspace.
struct ConvBackwardFilter {
  static constexpr const char* name = "convolution_backward_filter";
  static constexpr std::size_t pointers = 4;
  using Args = ConvArgs;
  static void footprint(const Pointers<4>& p, const Args& a, Footprint& out);
  static void run(const Pointers<4>& p, const Args& a);
};

// y = activation(alpha * conv(x) + alpha2 * z + bias). Pointers: x, w, z, bias, y, workspace.
struct ConvBiasActivation {
  static constexpr const char* name = "convolution_bias_activation_forward";
  static constexpr std::size_t pointers = 6;
  struct Args {
    ConvArgs conv;
    Layout z;
    Activation activation;
    float alpha2;
  };
  static void footprint(const Pointers<6>& p, const Args& a, Footprint& out);
  static void run(const Pointers<6>& p, const Args& a);
};

// db = alpha * (sum of dy over images and positions) + beta * db. Pointers: dy, db.
struct ConvBackwardBias {
  static constexpr const char* name = "convolution_backward_bias";
  static constexpr std::size_t pointers = 2;
  struct Args {
    Layout dy;
    float alpha, beta;
  };
  static void footprint(const Pointers<2>& p, const Args& a, Footprint& out);
  static void run(const Pointers<2>& p, const Args& a);
};

}  // namespace softgpu::cudnn
