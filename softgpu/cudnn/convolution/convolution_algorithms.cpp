// What cuDNN's convolution algorithms accept and need. Workspaces follow the methods: the im2col matrix of
// one image, the transforms of Winograd and FFT over the batch, partial sums of the split filter gradient.
#include <algorithm>
#include <numeric>

#include "softgpu/cudnn/convolution/convolution.h"

namespace softgpu::cudnn {
namespace {

std::int64_t product(const std::int64_t (&values)[max_conv_spatial], int count) {
  std::int64_t result = 1;
  for (int d = 0; d < count; ++d) result *= values[d];
  return result;
}

std::size_t bytes(std::int64_t floats) {
  return (4 * static_cast<std::size_t>(floats) + 255) / 256 * 256;
}

bool unit_steps(const ConvShape& s) {
  for (int d = 0; d < s.spatial; ++d) {
    if (s.stride[d] != 1 || s.dilation[d] != 1) return false;
  }
  return true;
}

bool square_kernel(const ConvShape& s, std::int64_t size) {
  return s.spatial == 2 && s.kernel[0] == size && s.kernel[1] == size;
}

// Offsets of the filter's taps, computed once per call instead of once per element.
std::size_t index_table(const ConvShape& s) {
  return bytes(2 * s.c / s.groups * product(s.kernel, s.spatial) + 2 * product(s.out, s.spatial));
}

std::size_t im2col(const ConvShape& s) {
  return bytes(s.c * product(s.kernel, s.spatial) * product(s.out, s.spatial));
}

// Spectra of all images and filters: `tile` x (tile / 2 + 1) complex numbers per plane.
std::size_t spectra(const ConvShape& s, std::int64_t planes_per_image, std::int64_t tile_h,
                    std::int64_t tile_w) {
  const std::int64_t plane = 2 * tile_h * (tile_w / 2 + 1);
  return bytes(plane * (s.n * planes_per_image * (s.c + s.k) + s.c * s.k));
}

// Inputs, outputs and filters in the space of F(4x4, 3x3) or F(4x4, 5x5).
std::size_t winograd_nonfused(const ConvShape& s) {
  const std::int64_t tile = s.kernel[0] + 3;
  const std::int64_t tiles = (s.out[0] + 3) / 4 * ((s.out[1] + 3) / 4);
  return bytes(tile * tile * (s.n * tiles * (s.c + s.k) + s.c * s.k));
}

ConvAlgorithm plain(const ConvShape& s, std::size_t workspace, bool deterministic = true) {
  return {true, deterministic, workspace, direct_flops(s)};
}

ConvAlgorithm fft(const ConvShape& s) {
  if (s.spatial != 2 || s.groups != 1 || !unit_steps(s)) return {};
  const std::int64_t h = s.in[0] + 2 * s.padding[0];
  const std::int64_t w = s.in[1] + 2 * s.padding[1];
  if (h > 256 || w > 256 || s.kernel[0] <= s.padding[0] || s.kernel[1] <= s.padding[1]) return {};
  return {true, true, spectra(s, 1, h, w), direct_flops(s)};
}

ConvAlgorithm fft_tiling(const ConvShape& s) {
  if (s.spatial != 2 || s.groups != 1 || !unit_steps(s)) return {};
  if (s.kernel[0] > 32 || s.kernel[1] > 32 || s.kernel[0] <= s.padding[0] || s.kernel[1] <= s.padding[1])
    return {};
  const std::int64_t step_h = 33 - s.kernel[0];
  const std::int64_t step_w = 33 - s.kernel[1];
  const std::int64_t tiles = (s.out[0] + step_h - 1) / step_h * ((s.out[1] + step_w - 1) / step_w);
  return {true, true, spectra(s, tiles, 32, 32), direct_flops(s)};
}

ConvAlgorithm winograd(const ConvShape& s) {
  if (!square_kernel(s, 3) || !unit_steps(s) || s.groups != 1) return {};
  // F(2x2, 3x3) saves 2.25 of the multiplications; the transforms cost a part of that again.
  return {true, true, bytes(16 * s.c * s.k), direct_flops(s) / 1.5};
}

ConvAlgorithm nonfused(const ConvShape& s) {
  if (!(square_kernel(s, 3) || square_kernel(s, 5)) || !unit_steps(s) || s.groups != 1) return {};
  return {true, true, winograd_nonfused(s), direct_flops(s) / 2};
}

ConvAlgorithm forward(int algorithm, const ConvShape& s) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM:
      return {true, true, 0, 1.25 * direct_flops(s)};  // finds its offsets anew for each element
    case CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM:
      return plain(s, index_table(s));
    case CUDNN_CONVOLUTION_FWD_ALGO_GEMM:
      return s.groups == 1 ? plain(s, im2col(s)) : ConvAlgorithm{};
    case CUDNN_CONVOLUTION_FWD_ALGO_FFT:
      return fft(s);
    case CUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING:
      return fft_tiling(s);
    case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD:
      return winograd(s);
    case CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED:
      return nonfused(s);
    default:  // DIRECT has never been implemented
      return {};
  }
}

ConvAlgorithm backward_data(int algorithm, const ConvShape& s) {
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_0:
      return plain(s, 0, false);
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_1:
      return plain(s, bytes(filter_elements(s)) + index_table(s));  // the transposed filter
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT:
      return fft(s);
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING:
      return fft_tiling(s);
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD:
      return winograd(s);
    case CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED:
      return nonfused(s);
    default:
      return {};
  }
}

ConvAlgorithm backward_filter(int algorithm, const ConvShape& s) {
  // Deterministic sums over the batch need a partial result per part of it.
  const std::int64_t parts = std::clamp<std::int64_t>(s.n / 16, 1, 8);
  switch (algorithm) {
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0:
      return plain(s, 0, false);
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1:
      return plain(s, bytes(parts * filter_elements(s)) + index_table(s));
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT:
      return fft(s);
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3:
      return plain(s, bytes(filter_elements(s)), false);
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED:
      return nonfused(s);
    case CUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING:
      return fft_tiling(s);
    default:
      return {};
  }
}

}  // namespace

std::int64_t filter_elements(const ConvShape& s) {
  return s.k * (s.c / s.groups) * product(s.kernel, s.spatial);
}

double direct_flops(const ConvShape& s) {
  return 2.0 * static_cast<double>(s.n) * static_cast<double>(product(s.out, s.spatial)) *
         static_cast<double>(filter_elements(s));
}

ConvAlgorithm describe_algorithm(ConvDirection direction, int algorithm, const ConvShape& shape) {
  switch (direction) {
    case ConvDirection::forward:
      return forward(algorithm, shape);
    case ConvDirection::backward_data:
      return backward_data(algorithm, shape);
    case ConvDirection::backward_filter:
      return backward_filter(algorithm, shape);
  }
  return {};
}

int algorithm_count(ConvDirection direction) {
  switch (direction) {
    case ConvDirection::forward:
      return CUDNN_CONVOLUTION_FWD_ALGO_COUNT;
    case ConvDirection::backward_data:
      return CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT;
    case ConvDirection::backward_filter:
      return CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT;
  }
  return 0;
}

std::vector<int> ranked_algorithms(ConvDirection direction, const ConvShape& shape) {
  std::vector<int> result(static_cast<std::size_t>(algorithm_count(direction)));
  std::iota(result.begin(), result.end(), 0);
  std::stable_sort(result.begin(), result.end(), [&](int first, int second) {
    const ConvAlgorithm a = describe_algorithm(direction, first, shape);
    const ConvAlgorithm b = describe_algorithm(direction, second, shape);
    if (a.supported != b.supported) return a.supported;
    if (a.flops != b.flops) return a.flops < b.flops;
    return a.workspace < b.workspace;
  });
  return result;
}

}  // namespace softgpu::cudnn
