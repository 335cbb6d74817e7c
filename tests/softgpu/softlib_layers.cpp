// Activation, pooling, softmax and elementwise operations of the software cuDNN.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

class Layers : public Library {};

struct ActivationCase {
  cudnnActivationMode_t mode;
  double coefficient;
  std::function<double(double)> value, slope;  // of x
};

TEST_F(Layers, ActivationsBothWays) {
  const ActivationCase cases[] = {
      {CUDNN_ACTIVATION_RELU, 0, [](double x) { return std::max(x, 0.0); },
       [](double x) { return x > 0 ? 1.0 : 0.0; }},
      {CUDNN_ACTIVATION_SIGMOID, 0, [](double x) { return 1 / (1 + std::exp(-x)); },
       [](double x) { return std::exp(-x) / std::pow(1 + std::exp(-x), 2); }},
      {CUDNN_ACTIVATION_TANH, 0, [](double x) { return std::tanh(x); },
       [](double x) { return 1 - std::pow(std::tanh(x), 2); }},
      {CUDNN_ACTIVATION_CLIPPED_RELU, 0.5, [](double x) { return std::clamp(x, 0.0, 0.5); },
       [](double x) { return x > 0 && x < 0.5 ? 1.0 : 0.0; }},
      {CUDNN_ACTIVATION_ELU, 0.7, [](double x) { return x > 0 ? x : 0.7 * std::expm1(x); },
       [](double x) { return x > 0 ? 1.0 : 0.7 * std::exp(x); }},
      {CUDNN_ACTIVATION_IDENTITY, 0, [](double x) { return x; }, [](double) { return 1.0; }},
  };
  Tensor desc(3, 5, 17, 19);
  const Floats x = values(desc.count(), 1);
  const Floats dy = values(desc.count(), 2);
  const Floats old = values(desc.count(), 3);
  cudnnActivationDescriptor_t activation = nullptr;
  CUDNN_OK(cudnnCreateActivationDescriptor(&activation));
  for (const ActivationCase& c : cases) {
    CUDNN_OK(cudnnSetActivationDescriptor(activation, c.mode, CUDNN_NOT_PROPAGATE_NAN, c.coefficient));
    for (auto [alpha, beta] : {std::pair{1.0F, 0.0F}, std::pair{2.0F, 0.5F}}) {
      Floats y(x.size()), dx(x.size()), plain(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        plain[i] = static_cast<float>(c.value(x[i]));
        y[i] = static_cast<float>(alpha * c.value(x[i]) + beta * old[i]);
        dx[i] = static_cast<float>(alpha * dy[i] * c.slope(x[i]) + beta * old[i]);
      }
      Buffer x_device(x), y_device(old), dy_device(dy), dx_device(old), plain_device(plain);
      CUDNN_OK(cudnnActivationForward(dnn, activation, &alpha, desc, x_device.data(), &beta, desc,
                                      y_device.data()));
      expect_close(y_device.get(), y);
      CUDNN_OK(cudnnActivationBackward(dnn, activation, &alpha, desc, plain_device.data(), desc,
                                       dy_device.data(), desc, x_device.data(), &beta, desc,
                                       dx_device.data()));
      expect_close(dx_device.get(), dx);
    }
    // In place, forward and backward.
    Buffer both(x), gradient(dy);
    CUDNN_OK(cudnnActivationForward(dnn, activation, &one, desc, both.data(), &zero, desc, both.data()));
    CUDNN_OK(cudnnActivationBackward(dnn, activation, &one, desc, both.data(), desc, gradient.data(), desc,
                                     both.data(), &zero, desc, gradient.data()));
    Floats expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = static_cast<float>(dy[i] * c.slope(x[i]));
    expect_close(gradient.get(), expected);
  }
  CUDNN_OK(cudnnDestroyActivationDescriptor(activation));
}

TEST_F(Layers, ReluAndNaN) {
  Tensor desc(1, 1, 1, 3);
  cudnnActivationDescriptor_t relu = nullptr;
  CUDNN_OK(cudnnCreateActivationDescriptor(&relu));
  for (auto nan : {CUDNN_NOT_PROPAGATE_NAN, CUDNN_PROPAGATE_NAN}) {
    CUDNN_OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, nan, 0));
    Buffer x(Floats{std::numeric_limits<float>::quiet_NaN(), -1, 2});
    CUDNN_OK(cudnnActivationForward(dnn, relu, &one, desc, x.data(), &zero, desc, x.data()));
    const Floats y = x.get();
    EXPECT_EQ(std::isnan(y[0]), nan == CUDNN_PROPAGATE_NAN);
    EXPECT_EQ(y[1], 0.0F);
    EXPECT_EQ(y[2], 2.0F);
  }
  CUDNN_OK(cudnnDestroyActivationDescriptor(relu));
}

struct PoolCase {
  cudnnPoolingMode_t mode;
  int window, padding, stride;
};

TEST_F(Layers, PoolingBothWays) {
  constexpr int N = 2, C = 3, H = 9, W = 8;
  const PoolCase cases[] = {
      {CUDNN_POOLING_MAX, 3, 1, 2},
      {CUDNN_POOLING_MAX_DETERMINISTIC, 2, 0, 2},
      {CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, 3, 1, 2},
      {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 3, 1, 1},
      {CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING, 8, 0, 1},
  };
  Tensor x_desc(N, C, H, W);
  const Floats x = values(x_desc.count(), 1);
  cudnnPoolingDescriptor_t pooling = nullptr;
  CUDNN_OK(cudnnCreatePoolingDescriptor(&pooling));
  for (const PoolCase& c : cases) {
    CUDNN_OK(cudnnSetPooling2dDescriptor(pooling, c.mode, CUDNN_NOT_PROPAGATE_NAN, c.window, c.window,
                                         c.padding, c.padding, c.stride, c.stride));
    int n, k, p, q;
    CUDNN_OK(cudnnGetPooling2dForwardOutputDim(pooling, x_desc, &n, &k, &p, &q));
    ASSERT_EQ(p, (H + 2 * c.padding - c.window) / c.stride + 1);
    Tensor y_desc(n, k, p, q);
    const Floats dy = values(y_desc.count(), 2);
    const Floats old_y = values(y_desc.count(), 3);
    const Floats old_x = values(x_desc.count(), 4);
    const float alpha = 2;
    const float beta = 0.5;
    Floats y(y_desc.count()), dx(x_desc.count());
    for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = beta * old_x[i];
    for (int plane = 0; plane < N * C; ++plane) {
      for (int ip = 0; ip < p; ++ip) {
        for (int iq = 0; iq < q; ++iq) {
          double sum = 0;
          double best = -1e30;
          std::size_t where = 0;
          std::vector<std::size_t> inside;
          for (int r = ip * c.stride - c.padding; r < ip * c.stride - c.padding + c.window; ++r) {
            for (int s = iq * c.stride - c.padding; s < iq * c.stride - c.padding + c.window; ++s) {
              if (r < 0 || r >= H || s < 0 || s >= W) continue;
              const auto at = static_cast<std::size_t>((plane * H + r) * W + s);
              inside.push_back(at);
              sum += x[at];
              if (x[at] > best) best = x[at], where = at;
            }
          }
          const auto at = static_cast<std::size_t>((plane * p + ip) * q + iq);
          const bool max = c.mode == CUDNN_POOLING_MAX || c.mode == CUDNN_POOLING_MAX_DETERMINISTIC;
          const double count = c.mode == CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                                   ? c.window * c.window
                                   : static_cast<double>(inside.size());
          y[at] = static_cast<float>(alpha * (max ? best : sum / count) + beta * old_y[at]);
          if (max) dx[where] += alpha * dy[at];
          if (!max) {
            for (std::size_t i : inside) dx[i] += static_cast<float>(alpha * dy[at] / count);
          }
        }
      }
    }
    Buffer x_device(x), y_device(old_y), dy_device(dy), dx_device(old_x);
    CUDNN_OK(
        cudnnPoolingForward(dnn, pooling, &alpha, x_desc, x_device.data(), &beta, y_desc, y_device.data()));
    expect_close(y_device.get(), y);
    CUDNN_OK(cudnnPoolingBackward(dnn, pooling, &alpha, y_desc, y_device.data(), y_desc, dy_device.data(),
                                  x_desc, x_device.data(), &beta, x_desc, dx_device.data()));
    expect_close(dx_device.get(), dx);
  }
  CUDNN_OK(cudnnDestroyPoolingDescriptor(pooling));
}

TEST_F(Layers, SoftmaxBothWays) {
  constexpr int N = 3, C = 7, H = 2, W = 3;
  Tensor desc(N, C, H, W);
  Floats x = values(desc.count(), 1);
  for (float& v : x) v *= 5;
  const Floats dy = values(desc.count(), 2);
  for (auto mode : {CUDNN_SOFTMAX_MODE_INSTANCE, CUDNN_SOFTMAX_MODE_CHANNEL}) {
    const auto group = [&](std::size_t i) {
      return mode == CUDNN_SOFTMAX_MODE_INSTANCE ? i / (C * H * W) : i / (C * H * W) * (H * W) + i % (H * W);
    };
    std::vector<double> sums(N * H * W);
    for (std::size_t i = 0; i < x.size(); ++i) sums[group(i)] += std::exp(x[i]);
    for (auto algorithm : {CUDNN_SOFTMAX_FAST, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_LOG}) {
      const bool log = algorithm == CUDNN_SOFTMAX_LOG;
      Floats y(x.size()), dx(x.size());
      std::vector<double> weighted(sums.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double p = std::exp(x[i]) / sums[group(i)];
        y[i] = static_cast<float>(log ? std::log(p) : p);
        weighted[group(i)] += log ? dy[i] : dy[i] * p;
      }
      for (std::size_t i = 0; i < x.size(); ++i) {
        const double p = std::exp(x[i]) / sums[group(i)];
        dx[i] = static_cast<float>(log ? dy[i] - p * weighted[group(i)] : p * (dy[i] - weighted[group(i)]));
      }
      Buffer y_device(x), dx_device(dy);  // both in place
      CUDNN_OK(cudnnSoftmaxForward(dnn, algorithm, mode, &one, desc, y_device.data(), &zero, desc,
                                   y_device.data()));
      expect_close(y_device.get(), y);
      CUDNN_OK(cudnnSoftmaxBackward(dnn, algorithm, mode, &one, desc, y_device.data(), desc, dx_device.data(),
                                    &zero, desc, dx_device.data()));
      expect_close(dx_device.get(), dx);
    }
  }
}

TEST_F(Layers, AddTensorStretchesAndBlends) {
  Tensor bias_desc(1, 4, 1, 1);
  Tensor desc(3, 4, 5, 6);
  const Floats bias = values(4, 1);
  const Floats old = values(desc.count(), 2);
  const float alpha = 2;
  Floats expected(old.size());
  for (std::size_t i = 0; i < old.size(); ++i) expected[i] = alpha * bias[i / 30 % 4] + old[i];
  Buffer bias_device(bias), c(old);
  CUDNN_OK(cudnnAddTensor(dnn, &alpha, bias_desc, bias_device.data(), &one, desc, c.data()));
  expect_close(c.get(), expected);
  EXPECT_EQ(cudnnAddTensor(dnn, &alpha, desc, c.data(), &one, bias_desc, bias_device.data()),
            CUDNN_STATUS_BAD_PARAM);
}

TEST_F(Layers, OpTensor) {
  Tensor desc(2, 3, 4, 5);
  Tensor b_desc(1, 3, 1, 1);
  Floats a = values(desc.count(), 1);
  for (float& v : a) v += 1.5F;
  const Floats b = values(3, 2);
  const Floats old = values(desc.count(), 3);
  const float alpha1 = 2;
  const float alpha2 = -3;
  const float beta = 0.5;
  const std::function<double(double, double)> operations[] = {
      [](double x, double y) { return x + y; },          [](double x, double y) { return x * y; },
      [](double x, double y) { return std::min(x, y); }, [](double x, double y) { return std::max(x, y); },
      [](double x, double) { return std::sqrt(x); },     [](double x, double) { return 1 - x; }};
  cudnnOpTensorDescriptor_t op = nullptr;
  CUDNN_OK(cudnnCreateOpTensorDescriptor(&op));
  for (int i = 0; i < 6; ++i) {
    CUDNN_OK(cudnnSetOpTensorDescriptor(op, static_cast<cudnnOpTensorOp_t>(i), CUDNN_DATA_FLOAT,
                                        CUDNN_NOT_PROPAGATE_NAN));
    Floats expected(old.size());
    for (std::size_t j = 0; j < old.size(); ++j) {
      expected[j] = static_cast<float>(operations[i](alpha1 * a[j], alpha2 * b[j / 20 % 3]) + beta * old[j]);
    }
    Buffer a_device(a), b_device(b), c_device(old);
    CUDNN_OK(cudnnOpTensor(dnn, op, &alpha1, desc, a_device.data(), &alpha2, b_desc, b_device.data(), &beta,
                           desc, c_device.data()));
    expect_close(c_device.get(), expected);
  }
  CUDNN_OK(cudnnDestroyOpTensorDescriptor(op));
}

TEST_F(Layers, SetAndScale) {
  Tensor desc(2, 3, 100, 7);
  Buffer y(desc.count());
  const float value = 3;
  const float factor = -0.5;
  CUDNN_OK(cudnnSetTensor(dnn, desc, y.data(), &value));
  CUDNN_OK(cudnnScaleTensor(dnn, desc, y.data(), &factor));
  EXPECT_EQ(y.get(), Floats(desc.count(), -1.5F));
}

}  // namespace
}  // namespace softlib
