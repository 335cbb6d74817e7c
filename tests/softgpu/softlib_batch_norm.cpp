// Batch normalisation of the software cuDNN against its formulas and finite differences.
#include <cmath>
#include <cstring>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

constexpr int N = 4, C = 3, H = 5, W = 7;
constexpr double epsilon = 1e-4;

class BatchNorm : public Library, public ::testing::WithParamInterface<cudnnBatchNormMode_t> {
 protected:
  std::size_t parameters() const { return GetParam() == CUDNN_BATCHNORM_PER_ACTIVATION ? C * H * W : C; }
  // The statistic that element i of an N x C x H x W tensor belongs to.
  std::size_t of(std::size_t i) const {
    return GetParam() == CUDNN_BATCHNORM_PER_ACTIVATION ? i % (C * H * W) : i / (H * W) % C;
  }
  struct Statistics {
    std::vector<double> mean, variance;
    double count;
  };
  Statistics statistics(const Floats& x) const {
    Statistics s{std::vector<double>(parameters()), std::vector<double>(parameters()),
                 static_cast<double>(x.size() / parameters())};
    for (std::size_t i = 0; i < x.size(); ++i) s.mean[of(i)] += x[i] / s.count;
    for (std::size_t i = 0; i < x.size(); ++i)
      s.variance[of(i)] += std::pow(x[i] - s.mean[of(i)], 2) / s.count;
    return s;
  }
  std::vector<double> normalised(const Floats& x, const Floats& scale, const Floats& bias) const {
    const Statistics s = statistics(x);
    std::vector<double> y(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::size_t m = of(i);
      y[i] = (x[i] - s.mean[m]) / std::sqrt(s.variance[m] + epsilon) * scale[m] + bias[m];
    }
    return y;
  }
  Tensor desc{N, C, H, W};
  Tensor parameter_desc{1, C, 1, 1};

  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnDeriveBNTensorDescriptor(parameter_desc, desc, GetParam()));
    std::size_t bytes = 0;
    CUDNN_OK(cudnnGetTensorSizeInBytes(parameter_desc, &bytes));
    ASSERT_EQ(bytes, 4 * parameters());
  }
};

TEST_P(BatchNorm, ForwardTraining) {
  const Floats x = values(desc.count(), 1);
  const Floats scale = values(parameters(), 2);
  const Floats bias = values(parameters(), 3);
  const Floats running_mean = values(parameters(), 4);
  const Floats running_variance = values(parameters(), 5);
  const Statistics s = statistics(x);
  for (double factor : {0.1, 1.0}) {
    Buffer x_device(x), y_device(desc.count()), scale_device(scale), bias_device(bias);
    Buffer mean_device(running_mean), variance_device(running_variance);
    Buffer saved_mean(parameters()), saved_inverse(parameters());
    CUDNN_OK(cudnnBatchNormalizationForwardTraining(
        dnn, GetParam(), &one, &zero, desc, x_device.data(), desc, y_device.data(), parameter_desc,
        scale_device.data(), bias_device.data(), factor, mean_device.data(), variance_device.data(), epsilon,
        saved_mean.data(), saved_inverse.data()));
    const std::vector<double> y = normalised(x, scale, bias);
    expect_close(y_device.get(), Floats(y.begin(), y.end()));
    Floats mean(parameters()), variance(parameters()), plain(parameters()), inverse(parameters());
    for (std::size_t m = 0; m < parameters(); ++m) {
      mean[m] = static_cast<float>(s.mean[m] * factor + running_mean[m] * (1 - factor));
      variance[m] = static_cast<float>(s.variance[m] * s.count / (s.count - 1) * factor +
                                       running_variance[m] * (1 - factor));
      plain[m] = static_cast<float>(s.mean[m]);
      inverse[m] = static_cast<float>(1 / std::sqrt(s.variance[m] + epsilon));
    }
    expect_close(mean_device.get(), mean);
    expect_close(variance_device.get(), variance);
    expect_close(saved_mean.get(), plain);
    expect_close(saved_inverse.get(), inverse);
  }
}

TEST_P(BatchNorm, ForwardInference) {
  const Floats x = values(desc.count(), 1);
  const Floats scale = values(parameters(), 2);
  const Floats bias = values(parameters(), 3);
  const Floats mean = values(parameters(), 4);
  Floats variance = values(parameters(), 5);
  for (float& v : variance) v = v * v + 0.1F;
  const Floats old = values(desc.count(), 6);
  const float alpha = 0.5;
  const float beta = 2;
  Floats expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t m = of(i);
    expected[i] = static_cast<float>(
        alpha * ((x[i] - mean[m]) / std::sqrt(variance[m] + epsilon) * scale[m] + bias[m]) + beta * old[i]);
  }
  Buffer x_device(x), y_device(old), scale_device(scale), bias_device(bias), mean_device(mean),
      variance_device(variance);
  CUDNN_OK(cudnnBatchNormalizationForwardInference(
      dnn, GetParam(), &alpha, &beta, desc, x_device.data(), desc, y_device.data(), parameter_desc,
      scale_device.data(), bias_device.data(), mean_device.data(), variance_device.data(), epsilon));
  expect_close(y_device.get(), expected);
}

// d(sum of dy * y) by central differences in double precision.
TEST_P(BatchNorm, BackwardAgreesWithFiniteDifferences) {
  const Floats x = values(desc.count(), 1);
  const Floats scale = values(parameters(), 2);
  const Floats bias = values(parameters(), 3);
  const Floats dy = values(desc.count(), 4);
  const auto loss = [&](const Floats& at_x, const Floats& at_scale, const Floats& at_bias) {
    const std::vector<double> y = normalised(at_x, at_scale, at_bias);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
    return sum;
  };
  const auto slope = [&](Floats& of_what, std::size_t i, auto f) {
    const float step = 1.0F / 256;
    const float middle = of_what[i];
    of_what[i] = middle + step;
    const double above = f();
    of_what[i] = middle - step;
    const double below = f();
    of_what[i] = middle;
    return static_cast<float>((above - below) / (2 * step));
  };
  Floats dx(x.size()), dscale(parameters()), dbias(parameters());
  Floats vx = x, vs = scale, vb = bias;
  const auto f = [&] { return loss(vx, vs, vb); };
  for (std::size_t i = 0; i < dx.size(); ++i) dx[i] = slope(vx, i, f);
  for (std::size_t m = 0; m < parameters(); ++m) dscale[m] = slope(vs, m, f);
  for (std::size_t m = 0; m < parameters(); ++m) dbias[m] = slope(vb, m, f);

  const Statistics s = statistics(x);
  Floats mean(s.mean.begin(), s.mean.end());
  Floats inverse(parameters());
  for (std::size_t m = 0; m < parameters(); ++m) {
    inverse[m] = static_cast<float>(1 / std::sqrt(s.variance[m] + epsilon));
  }
  Buffer x_device(x), scale_device(scale), mean_device(mean), inverse_device(inverse);
  for (bool saved : {true, false}) {
    Buffer dy_device(dy);  // dx in place of it
    Buffer dscale_device(parameters()), dbias_device(parameters());
    CUDNN_OK(cudnnBatchNormalizationBackward(
        dnn, GetParam(), &one, &zero, &one, &zero, desc, x_device.data(), desc, dy_device.data(), desc,
        dy_device.data(), parameter_desc, scale_device.data(), dscale_device.data(), dbias_device.data(),
        epsilon, saved ? mean_device.data() : nullptr, saved ? inverse_device.data() : nullptr));
    expect_close(dy_device.get(), dx, 2e-3);
    expect_close(dscale_device.get(), dscale, 1e-4);
    expect_close(dbias_device.get(), dbias, 1e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, BatchNorm,
                         ::testing::Values(CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_PER_ACTIVATION,
                                           CUDNN_BATCHNORM_SPATIAL_PERSISTENT));

// A tensor N x C x H x W of the type and in channels-last order.
struct ChannelsLast {
  cudnnTensorDescriptor_t desc = nullptr;
  cudnnDataType_t type;

  explicit ChannelsLast(cudnnDataType_t of) : type(of) {
    EXPECT_EQ(cudnnCreateTensorDescriptor(&desc), CUDNN_STATUS_SUCCESS);
    EXPECT_EQ(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NHWC, type, N, C, H, W), CUDNN_STATUS_SUCCESS);
  }
  ~ChannelsLast() { cudnnDestroyTensorDescriptor(desc); }
  ChannelsLast(const ChannelsLast&) = delete;
  ChannelsLast& operator=(const ChannelsLast&) = delete;

  static std::size_t place(std::size_t i) {
    const std::size_t w = i % W, h = i / W % H, c = i / W / H % C, n = i / W / H / C;
    return ((n * H + h) * W + w) * C + c;
  }
  // From N, C, H, W order, in bfloat16 by cutting bits off: `from` has no others.
  void bring(const Floats& from, Buffer& to) const {
    Floats floats(from.size());
    std::vector<std::uint16_t> shorts(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      floats[place(i)] = from[i];
      std::memcpy(&shorts[place(i)], reinterpret_cast<const char*>(&from[i]) + 2, 2);
    }
    const bool narrow = type == CUDNN_DATA_BFLOAT16;
    CUDA_OK(cudaMemcpy(to.data(), narrow ? static_cast<const void*>(shorts.data()) : floats.data(),
                       from.size() * (narrow ? 2 : 4), cudaMemcpyHostToDevice));
  }
  Floats fetch(const Buffer& from, std::size_t count) const {
    Floats raw = from.get();
    raw.resize(count);
    Floats result(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (type == CUDNN_DATA_FLOAT) {
        result[i] = raw[place(i)];
      } else {
        std::memcpy(reinterpret_cast<char*>(&result[i]) + 2,
                    reinterpret_cast<const char*>(raw.data()) + 2 * place(i), 2);
      }
    }
    return result;
  }
};

using BatchNormLayouts = Library;

TEST_F(BatchNormLayouts, ChannelsLastGivesTheBitsOfChannelsFirstAndBfloat16Rounds) {
  Tensor plain(N, C, H, W), parameters(1, C, 1, 1);
  Floats x = values(plain.count(), 1);
  for (float& v : x) v = std::round(v * 64) / 64;
  const Floats scale = values(C, 2), bias = values(C, 3);
  const auto train = [&](cudnnTensorDescriptor_t desc, const Buffer& x_device, Buffer& y_device,
                         Buffer& dx_device) {
    Buffer scale_device(scale), bias_device(bias), mean(C), inverse(C), dscale(C), dbias(C);
    CUDNN_OK(cudnnBatchNormalizationForwardTrainingEx(
        dnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN, &one, &zero, desc, x_device.data(),
        nullptr, nullptr, desc, y_device.data(), parameters, scale_device.data(), bias_device.data(), 1.0,
        nullptr, nullptr, epsilon, mean.data(), inverse.data(), nullptr, nullptr, 0, nullptr, 0));
    CUDNN_OK(cudnnBatchNormalizationBackwardEx(
        dnn, CUDNN_BATCHNORM_SPATIAL_PERSISTENT, CUDNN_BATCHNORM_OPS_BN, &one, &zero, &one, &zero, desc,
        x_device.data(), nullptr, nullptr, desc, y_device.data(), nullptr, nullptr, desc, dx_device.data(),
        parameters, scale_device.data(), bias_device.data(), dscale.data(), dbias.data(), epsilon,
        mean.data(), inverse.data(), nullptr, nullptr, 0, nullptr, 0));
  };
  Buffer x_plain(x), y_plain(x.size()), dx_plain(x.size());
  train(plain, x_plain, y_plain, dx_plain);
  for (cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_BFLOAT16}) {
    const ChannelsLast last(type);
    Buffer x_last(x.size()), y_last(x.size()), dx_last(x.size());
    last.bring(x, x_last);
    train(last.desc, x_last, y_last, dx_last);
    if (type == CUDNN_DATA_FLOAT) {
      EXPECT_EQ(last.fetch(y_last, x.size()), y_plain.get());
      EXPECT_EQ(last.fetch(dx_last, x.size()), dx_plain.get());
    } else {
      expect_close(last.fetch(y_last, x.size()), y_plain.get(), 1.0 / 256);
      expect_close(last.fetch(dx_last, x.size()), dx_plain.get(), 1.0 / 64);
    }
  }
}

}  // namespace
}  // namespace softlib
