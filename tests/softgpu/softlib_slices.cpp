// 3-D shapes, channel slices of a concatenated tensor, and the search for algorithms, of the software cuDNN.
#include <algorithm>
#include <cmath>
#include <functional>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

// Channels [first, first + c) of an N x channels x H x W tensor, as GoogLeNet's concatenation has them.
class Slices : public Library {
 protected:
  static constexpr int N = 3, C = 4, H = 6, W = 8, channels = 9, first = 3;

  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(
        cudnnSetTensor4dDescriptorEx(slice, CUDNN_DATA_FLOAT, N, C, H, W, channels * H * W, H * W, W, 1));
  }
  static std::size_t at(std::size_t i, int h = H, int w = W) {
    const auto image = static_cast<std::size_t>(C * h * w);
    return i / image * static_cast<std::size_t>(channels * h * w) + static_cast<std::size_t>(first * h * w) +
           i % image;
  }
  static Floats gathered(const Floats& whole, int h = H, int w = W) {
    Floats part(static_cast<std::size_t>(N * C * h * w));
    for (std::size_t i = 0; i < part.size(); ++i) part[i] = whole[at(i, h, w)];
    return part;
  }
  using Call = std::function<void(cudnnTensorDescriptor_t, float*, cudnnTensorDescriptor_t, float*)>;
  // `call(x descriptor, x, y descriptor, y)` must give the same on a slice as on packed memory, and leave the
  // other channels alone.
  void same_on_slices(const Call& call, double tolerance = 0) {
    const Floats whole_x = values(N * channels * H * W, 1);
    const Floats whole_y = values(N * channels * H * W, 2);
    Buffer x(gathered(whole_x)), y(gathered(whole_y)), sliced_x(whole_x), sliced_y(whole_y);
    call(packed, x.data(), packed, y.data());
    call(slice, sliced_x.data() + first * H * W, slice, sliced_y.data() + first * H * W);
    Floats expected = whole_y;
    const Floats result = y.get();
    for (std::size_t i = 0; i < result.size(); ++i) expected[at(i)] = result[i];
    expect_close(sliced_y.get(), expected, tolerance);
    EXPECT_NE(result, gathered(whole_y));
  }

  Tensor packed{N, C, H, W}, slice{N, C, H, W};
};

TEST_F(Slices, ActivationAndAdditionAndDropout) {
  cudnnActivationDescriptor_t relu = nullptr;
  CUDNN_OK(cudnnCreateActivationDescriptor(&relu));
  CUDNN_OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnActivationForward(dnn, relu, &one, x_desc, x, &zero, y_desc, y));
  });
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnActivationBackward(dnn, relu, &one, x_desc, x, x_desc, x, x_desc, x, &zero, y_desc, y));
  });
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnAddTensor(dnn, &one, x_desc, x, &one, y_desc, y));
  });
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnTransformTensor(dnn, &one, x_desc, x, &zero, y_desc, y));
  });
  CUDNN_OK(cudnnDestroyActivationDescriptor(relu));

  cudnnDropoutDescriptor_t dropout = nullptr;
  std::size_t state_bytes = 0;
  std::size_t mask_bytes = 0;
  CUDNN_OK(cudnnCreateDropoutDescriptor(&dropout));
  CUDNN_OK(cudnnDropoutGetStatesSize(dnn, &state_bytes));
  CUDNN_OK(cudnnDropoutGetReserveSpaceSize(slice, &mask_bytes));
  Buffer states(state_bytes / 4), mask(mask_bytes / 4);
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnSetDropoutDescriptor(dropout, dnn, 0.5F, states.data(), state_bytes, 3));
    CUDNN_OK(cudnnDropoutForward(dnn, dropout, x_desc, x, y_desc, y, mask.data(), mask_bytes));
  });
  CUDNN_OK(cudnnDestroyDropoutDescriptor(dropout));
}

TEST_F(Slices, BatchNormalisation) {
  Tensor parameters(1, C, 1, 1);
  Buffer scale(values(C, 3)), bias(values(C, 4)), mean(C), inverse(C), dscale(C), dbias(C);
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
    CUDNN_OK(cudnnBatchNormalizationForwardTraining(dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, x_desc, x,
                                                    y_desc, y, parameters, scale.data(), bias.data(), 1.0,
                                                    nullptr, nullptr, 1e-4, mean.data(), inverse.data()));
  });
  same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {  // y: dy and dx
    CUDNN_OK(cudnnBatchNormalizationBackward(dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, x_desc,
                                             x, y_desc, y, y_desc, y, parameters, scale.data(), dscale.data(),
                                             dbias.data(), 1e-4, mean.data(), inverse.data()));
  });
}

TEST_F(Slices, PoolingBothWays) {
  cudnnPoolingDescriptor_t pooling = nullptr;
  CUDNN_OK(cudnnCreatePoolingDescriptor(&pooling));
  for (auto mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING}) {
    CUDNN_OK(cudnnSetPooling2dDescriptor(pooling, mode, CUDNN_NOT_PROPAGATE_NAN, 3, 3, 1, 1, 1, 1));
    same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
      CUDNN_OK(cudnnPoolingForward(dnn, pooling, &one, x_desc, x, &zero, y_desc, y));
    });
    same_on_slices([&](auto x_desc, float* x, auto y_desc, float* y) {
      const float* dy = x;  // any gradient serves
      CUDNN_OK(cudnnPoolingBackward(dnn, pooling, &one, x_desc, x, x_desc, dy, x_desc, x, &zero, y_desc, y));
    });
  }
  CUDNN_OK(cudnnDestroyPoolingDescriptor(pooling));
}

TEST_F(Slices, ConvolutionGradients) {
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  CUDNN_OK(cudnnCreateFilterDescriptor(&filter));
  CUDNN_OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, C, C, 3, 3));
  CUDNN_OK(cudnnCreateConvolutionDescriptor(&conv));
  CUDNN_OK(
      cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  Buffer w(values(C * C * 9, 7)), dw(C * C * 9), db(C);
  Tensor bias(1, C, 1, 1);
  same_on_slices(
      [&](auto dy_desc, float* dy, auto dx_desc, float* dx) {
        CUDNN_OK(cudnnConvolutionBackwardData(dnn, &one, filter, w.data(), dy_desc, dy, conv,
                                              CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &zero, dx_desc,
                                              dx));
      },
      1e-5);
  const Floats whole = values(N * channels * H * W, 1);
  Buffer part(gathered(whole)), all(whole);
  Floats gradients[2], biases[2];
  for (int sliced = 0; sliced < 2; ++sliced) {
    const cudnnTensorDescriptor_t desc = sliced != 0 ? slice : packed;
    const float* x = sliced != 0 ? all.data() + first * H * W : part.data();
    CUDNN_OK(cudnnConvolutionBackwardFilter(dnn, &one, desc, x, desc, x, conv,
                                            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &zero, filter,
                                            dw.data()));
    CUDNN_OK(cudnnConvolutionBackwardBias(dnn, &one, desc, x, &zero, bias, db.data()));
    gradients[sliced] = dw.get();
    biases[sliced] = db.get();
  }
  expect_close(gradients[0], gradients[1]);
  EXPECT_EQ(biases[0], biases[1]);
  CUDNN_OK(cudnnDestroyConvolutionDescriptor(conv));
  CUDNN_OK(cudnnDestroyFilterDescriptor(filter));
}

class Volumes : public Library {};

TEST_F(Volumes, PoolingInThreeDimensions) {
  constexpr int N = 2, C = 3, D = 5, H = 6, W = 4;
  constexpr int P = 3, Q = 3, R = 2;
  Tensor x_desc(1, 1, 1, 1), y_desc(1, 1, 1, 1);
  const int x_dims[] = {N, C, D, H, W};
  const int x_strides[] = {C * D * H * W, D * H * W, H * W, W, 1};
  const int window[] = {3, 2, 2};
  const int padding[] = {1, 0, 0};
  const int stride[] = {2, 2, 2};
  cudnnPoolingDescriptor_t pooling = nullptr;
  CUDNN_OK(cudnnCreatePoolingDescriptor(&pooling));
  CUDNN_OK(cudnnSetTensorNdDescriptor(x_desc, CUDNN_DATA_FLOAT, 5, x_dims, x_strides));
  const Floats x = values(N * C * D * H * W, 1);
  for (auto mode : {CUDNN_POOLING_MAX, CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING}) {
    CUDNN_OK(cudnnSetPoolingNdDescriptor(pooling, mode, CUDNN_NOT_PROPAGATE_NAN, 3, window, padding, stride));
    int dims[5];
    CUDNN_OK(cudnnGetPoolingNdForwardOutputDim(pooling, x_desc, 5, dims));
    ASSERT_EQ(std::vector<int>(dims, dims + 5), (std::vector<int>{N, C, P, Q, R}));
    CUDNN_OK(cudnnSetTensorNdDescriptorEx(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 5, dims));
    const Floats dy = values(N * C * P * Q * R, 2);
    Floats y(dy.size()), dx(x.size());
    for (int i = 0; i < static_cast<int>(y.size()); ++i) {
      const int r = i % R;
      const int q = i / R % Q;
      const int p = i / (R * Q) % P;
      const int plane = i / (R * Q * P);
      std::vector<std::size_t> inside;
      for (int d = std::max(2 * p - 1, 0); d < std::min(2 * p + 2, D); ++d) {
        for (int h = 2 * q; h < 2 * q + 2; ++h) {
          for (int w = 2 * r; w < 2 * r + 2; ++w)
            inside.push_back(static_cast<std::size_t>(((plane * D + d) * H + h) * W + w));
        }
      }
      const auto best = *std::max_element(inside.begin(), inside.end(),
                                          [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
      double sum = 0;
      for (std::size_t at : inside) sum += x[at];
      const bool max = mode == CUDNN_POOLING_MAX;
      const auto to = static_cast<std::size_t>(i);
      y[to] = max ? x[best] : static_cast<float>(sum / static_cast<double>(inside.size()));
      if (max) dx[best] += dy[to];
      for (std::size_t at : inside) dx[at] += max ? 0 : dy[to] / static_cast<float>(inside.size());
    }
    Buffer x_device(x), y_device(y.size()), dy_device(dy), dx_device(x.size());
    CUDNN_OK(
        cudnnPoolingForward(dnn, pooling, &one, x_desc, x_device.data(), &zero, y_desc, y_device.data()));
    expect_close(y_device.get(), y);
    CUDNN_OK(cudnnPoolingBackward(dnn, pooling, &one, y_desc, y_device.data(), y_desc, dy_device.data(),
                                  x_desc, x_device.data(), &zero, x_desc, dx_device.data()));
    expect_close(dx_device.get(), dx);
  }
  CUDNN_OK(cudnnDestroyPoolingDescriptor(pooling));
}

// SPATIAL in 3-D has one statistic per channel over N, D, H, W: a 2-D tensor of the same numbers gives the
// same.
TEST_F(Volumes, BatchNormalisationAndActivation) {
  constexpr int N = 2, C = 3, D = 4, H = 2, W = 5;
  const int dims[] = {N, C, D, H, W};
  Tensor volume(1, 1, 1, 1), flat(N, C, D * H, W), parameters(1, 1, 1, 1), flat_parameters(1, 1, 1, 1);
  CUDNN_OK(cudnnSetTensorNdDescriptorEx(volume, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 5, dims));
  CUDNN_OK(cudnnDeriveBNTensorDescriptor(parameters, volume, CUDNN_BATCHNORM_SPATIAL));
  CUDNN_OK(cudnnDeriveBNTensorDescriptor(flat_parameters, flat, CUDNN_BATCHNORM_SPATIAL));
  cudnnActivationDescriptor_t tanh = nullptr;
  CUDNN_OK(cudnnCreateActivationDescriptor(&tanh));
  CUDNN_OK(cudnnSetActivationDescriptor(tanh, CUDNN_ACTIVATION_TANH, CUDNN_NOT_PROPAGATE_NAN, 0));
  Buffer x(values(flat.count(), 1)), scale(values(C, 2)), bias(values(C, 3));
  Floats normalised[2], activated[2];
  for (int i = 0; i < 2; ++i) {
    const cudnnTensorDescriptor_t desc = i == 0 ? volume : flat;
    Buffer y(flat.count());
    CUDNN_OK(cudnnBatchNormalizationForwardTraining(dnn, CUDNN_BATCHNORM_SPATIAL, &one, &zero, desc, x.data(),
                                                    desc, y.data(), i == 0 ? parameters : flat_parameters,
                                                    scale.data(), bias.data(), 1.0, nullptr, nullptr, 1e-4,
                                                    nullptr, nullptr));
    normalised[i] = y.get();
    CUDNN_OK(cudnnActivationForward(dnn, tanh, &one, desc, y.data(), &zero, desc, y.data()));
    activated[i] = y.get();
  }
  EXPECT_EQ(normalised[0], normalised[1]);
  EXPECT_EQ(activated[0], activated[1]);
  EXPECT_NE(normalised[0], activated[0]);
  CUDNN_OK(cudnnDestroyActivationDescriptor(tanh));
}

class Search : public Library {
 protected:
  static constexpr int N = 4, C = 8, K = 16, H = 20, W = 20;
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateFilterDescriptor(&filter));
    CUDNN_OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C, 3, 3));
    CUDNN_OK(cudnnCreateConvolutionDescriptor(&conv));
    CUDNN_OK(
        cudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  }
  void TearDown() override {
    CUDNN_OK(cudnnDestroyConvolutionDescriptor(conv));
    CUDNN_OK(cudnnDestroyFilterDescriptor(filter));
    Library::TearDown();
  }
  template <class Performance>
  static void expect_ranking(const std::vector<Performance>& results, int returned) {
    ASSERT_EQ(returned, static_cast<int>(results.size()));
    EXPECT_EQ(results[0].status, CUDNN_STATUS_SUCCESS);
    EXPECT_GT(results[0].time, 0);
    for (std::size_t i = 1; i < results.size() && results[i].status == CUDNN_STATUS_SUCCESS; ++i) {
      EXPECT_GE(results[i].time, results[i - 1].time);
    }
  }
  cudnnFilterDescriptor_t filter = nullptr;
  cudnnConvolutionDescriptor_t conv = nullptr;
  Tensor x_desc{N, C, H, W}, y_desc{N, K, H, W};
};

TEST_F(Search, AlgorithmsAreRankedByTheirTime) {
  int returned = 0;
  std::vector<cudnnConvolutionFwdAlgoPerf_t> forward(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
  std::size_t free_before = 0, free_after = 0, total = 0;
  CUDA_OK(cudaMemGetInfo(&free_before, &total));
  CUDNN_OK(cudnnFindConvolutionForwardAlgorithm(dnn, x_desc, filter, conv, y_desc,
                                                CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &returned, forward.data()));
  expect_ranking(forward, returned);
  std::vector<cudnnConvolutionBwdDataAlgoPerf_t> data(CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
  CUDNN_OK(cudnnFindConvolutionBackwardDataAlgorithm(
      dnn, filter, y_desc, conv, x_desc, CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &returned, data.data()));
  expect_ranking(data, returned);
  std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> weights(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
  CUDNN_OK(cudnnFindConvolutionBackwardFilterAlgorithm(
      dnn, x_desc, y_desc, conv, filter, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &returned, weights.data()));
  expect_ranking(weights, returned);
  CUDA_OK(cudaMemGetInfo(&free_after, &total));
  EXPECT_EQ(free_after, free_before);
}

TEST_F(Search, ExFormsWriteTheOutputAndKeepToTheWorkspace) {
  Buffer x(values(x_desc.count(), 1)), w(values(K * C * 9, 2)), y(y_desc.count()), plain(y_desc.count());
  int returned = 0;
  std::vector<cudnnConvolutionFwdAlgoPerf_t> results(CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
  CUDNN_OK(cudnnFindConvolutionForwardAlgorithmEx(dnn, x_desc, x.data(), filter, w.data(), conv, y_desc,
                                                  y.data(), CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &returned,
                                                  results.data(), nullptr, 0));
  expect_ranking(results, returned);
  for (const auto& result : results) {
    EXPECT_TRUE(result.status != CUDNN_STATUS_SUCCESS || result.memory == 0);
  }
  CUDNN_OK(cudnnConvolutionForward(dnn, &one, x_desc, x.data(), filter, w.data(), conv,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, y_desc,
                                   plain.data()));
  EXPECT_EQ(y.get(), plain.get());
  Buffer dx(x_desc.count()), dw(K * C * 9);
  cudnnConvolutionBwdDataAlgoPerf_t data{};
  CUDNN_OK(cudnnFindConvolutionBackwardDataAlgorithmEx(dnn, filter, w.data(), y_desc, y.data(), conv, x_desc,
                                                       dx.data(), 1, &returned, &data, nullptr, 0));
  EXPECT_EQ(data.status, CUDNN_STATUS_SUCCESS);
  cudnnConvolutionBwdFilterAlgoPerf_t weights{};
  CUDNN_OK(cudnnFindConvolutionBackwardFilterAlgorithmEx(
      dnn, x_desc, x.data(), y_desc, y.data(), conv, filter, dw.data(), 1, &returned, &weights, nullptr, 0));
  EXPECT_EQ(weights.status, CUDNN_STATUS_SUCCESS);
  EXPECT_NEAR(dot(dx.get(), x.get()), dot(dw.get(), w.get()), 1e-3 * std::abs(dot(dw.get(), w.get())));
}

}  // namespace
}  // namespace softlib
