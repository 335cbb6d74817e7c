// LRN, and the Ex and cudnnNormalization forms of batch normalisation, of the software cuDNN.
#include <cmath>

#include "tests/softgpu/softlib_support.h"

namespace softlib {
namespace {

class Lrn : public Library {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateLRNDescriptor(&lrn));
  }
  void TearDown() override {
    CUDNN_OK(cudnnDestroyLRNDescriptor(lrn));
    Library::TearDown();
  }
  cudnnLRNDescriptor_t lrn = nullptr;
};

constexpr int N = 2, C = 9, H = 5, W = 17;
constexpr int plane = H * W;

struct Window {
  int n;
  double alpha, beta, k;
};

std::vector<double> lrn_reference(const Floats& x, const Window& w) {
  std::vector<double> y(x.size());
  const int behind = (w.n - 1) / 2;
  for (int i = 0; i < static_cast<int>(x.size()); ++i) {
    const int c = i / plane % C;
    double sum = 0;
    for (int other = c - behind; other < c - behind + w.n; ++other) {
      if (other < 0 || other >= C) continue;
      sum += std::pow(x[static_cast<std::size_t>(i + (other - c) * plane)], 2);
    }
    y[static_cast<std::size_t>(i)] =
        x[static_cast<std::size_t>(i)] * std::pow(w.k + w.alpha / w.n * sum, -w.beta);
  }
  return y;
}

TEST_F(Lrn, DescriptorBeginsWithAlexNetsValues) {
  unsigned n = 0;
  double alpha = 0;
  double beta = 0;
  double k = 0;
  CUDNN_OK(cudnnGetLRNDescriptor(lrn, &n, &alpha, &beta, &k));
  EXPECT_EQ(n, 5U);
  EXPECT_EQ(alpha, 1e-4);
  EXPECT_EQ(beta, 0.75);
  EXPECT_EQ(k, 2.0);
  EXPECT_EQ(cudnnSetLRNDescriptor(lrn, 17, alpha, beta, k), CUDNN_STATUS_BAD_PARAM);
}

TEST_F(Lrn, AgreesWithItsFormulaAndFiniteDifferences) {
  Tensor desc(N, C, H, W);
  Floats x = values(desc.count(), 1);
  const Floats dy = values(desc.count(), 2);
  const Floats old = values(desc.count(), 3);
  const float alpha = 2;
  const float beta = 0.5;
  for (const Window& w : {Window{5, 1e-4, 0.75, 2}, Window{4, 0.8, 0.5, 1}, Window{16, 3, 0.75, 0.5}}) {
    CUDNN_OK(cudnnSetLRNDescriptor(lrn, static_cast<unsigned>(w.n), w.alpha, w.beta, w.k));
    const std::vector<double> plain = lrn_reference(x, w);
    Floats blended(x.size());
    for (std::size_t i = 0; i < x.size(); ++i)
      blended[i] = static_cast<float>(alpha * plain[i] + beta * old[i]);
    Buffer x_device(x), y_device(old), dy_device(dy), dx_device(desc.count());
    CUDNN_OK(cudnnLRNCrossChannelForward(dnn, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &alpha, desc,
                                         x_device.data(), &beta, desc, y_device.data()));
    expect_close(y_device.get(), blended);
    CUDNN_OK(cudnnLRNCrossChannelForward(dnn, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, desc, x_device.data(),
                                         &zero, desc, y_device.data()));
    CUDNN_OK(cudnnLRNCrossChannelBackward(dnn, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, desc, y_device.data(),
                                          desc, dy_device.data(), desc, x_device.data(), &zero, desc,
                                          dx_device.data()));
    const Floats dx = dx_device.get();
    const auto loss = [&] {
      const std::vector<double> y = lrn_reference(x, w);
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * dy[i];
      return sum;
    };
    for (std::size_t i = 0; i < x.size(); i += 37) {
      const float step = 1.0F / 256;
      const float middle = x[i];
      x[i] = middle + step;
      const double above = loss();
      x[i] = middle - step;
      const double below = loss();
      x[i] = middle;
      EXPECT_NEAR(dx[i], (above - below) / (2 * step), 1e-3) << "at " << i << ", n " << w.n;
    }
  }
}

TEST_F(Lrn, WorksOnSlicesOfChannels) {
  constexpr int channels = C + 4;
  Tensor desc(N, C, H, W);
  Tensor slice(N, C, H, W);
  CUDNN_OK(cudnnSetTensor4dDescriptorEx(slice, CUDNN_DATA_FLOAT, N, C, H, W, channels * plane, plane, W, 1));
  const Floats x = values(desc.count(), 1);
  Buffer x_device(x), y_device(values(static_cast<std::size_t>(N) * channels * plane, 2));
  CUDNN_OK(cudnnLRNCrossChannelForward(dnn, lrn, CUDNN_LRN_CROSS_CHANNEL_DIM1, &one, desc, x_device.data(),
                                       &zero, slice, y_device.data() + 3 * plane));
  Floats expected = values(static_cast<std::size_t>(N) * channels * plane, 2);
  const std::vector<double> y = lrn_reference(x, {5, 1e-4, 0.75, 2});
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t image = i / (C * plane);
    expected[image * channels * plane + 3 * plane + i % (C * plane)] = static_cast<float>(y[i]);
  }
  expect_close(y_device.get(), expected);
}

// The Ex forms must give what the plain call, an addition and a ReLU give one after the other.
class NormEx : public Library, public ::testing::WithParamInterface<std::tuple<cudnnBatchNormMode_t, int>> {
 protected:
  static constexpr double epsilon = 1e-4;
  static constexpr int n = 3, c = 4, d = 2, h = 3, w = 5;
  static constexpr std::size_t count = n * c * d * h * w;

  cudnnBatchNormMode_t mode() const { return std::get<0>(GetParam()); }
  cudnnBatchNormOps_t ops() const { return static_cast<cudnnBatchNormOps_t>(std::get<1>(GetParam())); }
  bool adds() const { return ops() == CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; }
  bool activates() const { return ops() != CUDNN_BATCHNORM_OPS_BN; }
  std::size_t parameters() const { return mode() == CUDNN_BATCHNORM_PER_ACTIVATION ? count / n : c; }

  void SetUp() override {
    Library::SetUp();
    const int dims[] = {n, c, d, h, w};
    CUDNN_OK(cudnnSetTensorNdDescriptorEx(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 5, dims));
    CUDNN_OK(cudnnDeriveBNTensorDescriptor(parameter_desc, desc, mode()));
    CUDNN_OK(cudnnCreateActivationDescriptor(&relu));
    CUDNN_OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  }
  void TearDown() override {
    CUDNN_OK(cudnnDestroyActivationDescriptor(relu));
    Library::TearDown();
  }
  Floats behind(const Floats& y) const {
    Floats result = y;
    for (std::size_t i = 0; i < count; ++i) {
      if (adds()) result[i] += z[i];
      if (activates()) result[i] = std::max(result[i], 0.0F);
    }
    return result;
  }

  Tensor desc{1, 1, 1, 1}, parameter_desc{1, 1, 1, 1};
  cudnnActivationDescriptor_t relu = nullptr;
  const Floats x = values(count, 1), z = values(count, 2), dy = values(count, 3);
  Buffer x_device{x}, z_device{z}, dy_device{dy}, y_device{count}, plain{count};
  Buffer scale{values(count / n, 4)}, bias{values(count / n, 5)};
  Buffer mean{values(count / n, 6)}, variance{Floats(count / n, 0.5F)};
  Buffer saved_mean{count / n}, saved_inverse{count / n};
};

TEST_P(NormEx, IsTheSumOfItsParts) {
  CUDNN_OK(cudnnBatchNormalizationForwardTraining(
      dnn, mode(), &one, &zero, desc, x_device.data(), desc, plain.data(), parameter_desc, scale.data(),
      bias.data(), 0.1, nullptr, nullptr, epsilon, saved_mean.data(), saved_inverse.data()));
  const Floats expected = behind(plain.get());

  std::size_t workspace_bytes = 0;
  std::size_t reserve_bytes = 0;
  std::size_t backward_bytes = 0;
  CUDNN_OK(cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(dnn, mode(), ops(), desc, desc, desc,
                                                                    parameter_desc, relu, &workspace_bytes));
  CUDNN_OK(
      cudnnGetBatchNormalizationTrainingExReserveSpaceSize(dnn, mode(), ops(), relu, desc, &reserve_bytes));
  CUDNN_OK(cudnnGetBatchNormalizationBackwardExWorkspaceSize(dnn, mode(), ops(), desc, desc, desc, desc, desc,
                                                             parameter_desc, relu, &backward_bytes));
  EXPECT_EQ(reserve_bytes > 0, activates());
  Buffer workspace(workspace_bytes / 4), reserve(reserve_bytes / 4), backward_workspace(backward_bytes / 4);
  CUDNN_OK(cudnnBatchNormalizationForwardTrainingEx(
      dnn, mode(), ops(), &one, &zero, desc, x_device.data(), desc, z_device.data(), desc, y_device.data(),
      parameter_desc, scale.data(), bias.data(), 0.1, mean.data(), variance.data(), epsilon,
      saved_mean.data(), saved_inverse.data(), relu, workspace.data(), workspace_bytes, reserve.data(),
      reserve_bytes));
  EXPECT_EQ(y_device.get(), expected);

  Floats through = dy;  // the gradient before the ReLU
  for (std::size_t i = 0; i < count; ++i) {
    if (activates() && !(expected[i] > 0)) through[i] = 0;
  }
  Buffer through_device(through), dx(count), dscale(parameters()), dbias(parameters());
  CUDNN_OK(cudnnBatchNormalizationBackward(dnn, mode(), &one, &zero, &one, &zero, desc, x_device.data(), desc,
                                           through_device.data(), desc, dx.data(), parameter_desc,
                                           scale.data(), dscale.data(), dbias.data(), epsilon,
                                           saved_mean.data(), saved_inverse.data()));
  Buffer dx_ex(count), dz(count), dscale_ex(parameters()), dbias_ex(parameters());
  CUDNN_OK(cudnnBatchNormalizationBackwardEx(
      dnn, mode(), ops(), &one, &zero, &one, &zero, desc, x_device.data(), desc, y_device.data(), desc,
      dy_device.data(), desc, dz.data(), desc, dx_ex.data(), parameter_desc, scale.data(), bias.data(),
      dscale_ex.data(), dbias_ex.data(), epsilon, saved_mean.data(), saved_inverse.data(), relu,
      backward_workspace.data(), backward_bytes, reserve.data(), reserve_bytes));
  EXPECT_EQ(dx_ex.get(), dx.get());
  EXPECT_EQ(dscale_ex.get(), dscale.get());
  EXPECT_EQ(dbias_ex.get(), dbias.get());
  if (adds()) {
    EXPECT_EQ(dz.get(), through);
  }
  if (activates()) {
    EXPECT_EQ(cudnnBatchNormalizationForwardTrainingEx(
                  dnn, mode(), ops(), &one, &zero, desc, x_device.data(), desc, z_device.data(), desc,
                  y_device.data(), parameter_desc, scale.data(), bias.data(), 0.1, nullptr, nullptr, epsilon,
                  nullptr, nullptr, relu, nullptr, 0, reserve.data(), reserve_bytes - 1),
              CUDNN_STATUS_BAD_PARAM);
  }
}

TEST_P(NormEx, NormalizationGivesTheSame) {
  const cudnnNormMode_t norm_mode =
      mode() == CUDNN_BATCHNORM_PER_ACTIVATION ? CUDNN_NORM_PER_ACTIVATION : CUDNN_NORM_PER_CHANNEL;
  const auto norm_ops = static_cast<cudnnNormOps_t>(ops());
  Tensor mean_desc(1, 1, 1, 1);
  CUDNN_OK(cudnnDeriveNormTensorDescriptor(parameter_desc, mean_desc, desc, norm_mode, 1));
  std::size_t reserve_bytes = 0;
  std::size_t backward_bytes = 0;
  CUDNN_OK(cudnnGetNormalizationTrainingReserveSpaceSize(dnn, norm_mode, norm_ops, CUDNN_NORM_ALGO_STANDARD,
                                                         relu, desc, &reserve_bytes, 1));
  CUDNN_OK(cudnnGetNormalizationBackwardWorkspaceSize(dnn, norm_mode, norm_ops, CUDNN_NORM_ALGO_STANDARD,
                                                      desc, desc, desc, desc, desc, parameter_desc, relu,
                                                      mean_desc, &backward_bytes, 1));
  Buffer reserve(reserve_bytes / 4), workspace(backward_bytes / 4);
  CUDNN_OK(cudnnNormalizationForwardTraining(
      dnn, norm_mode, norm_ops, CUDNN_NORM_ALGO_STANDARD, &one, &zero, desc, x_device.data(), parameter_desc,
      scale.data(), bias.data(), 0.1, mean_desc, mean.data(), variance.data(), epsilon, saved_mean.data(),
      saved_inverse.data(), relu, desc, z_device.data(), desc, y_device.data(), nullptr, 0, reserve.data(),
      reserve_bytes, 1));
  CUDNN_OK(cudnnBatchNormalizationForwardTraining(dnn, mode(), &one, &zero, desc, x_device.data(), desc,
                                                  plain.data(), parameter_desc, scale.data(), bias.data(),
                                                  0.1, nullptr, nullptr, epsilon, nullptr, nullptr));
  EXPECT_EQ(y_device.get(), behind(plain.get()));

  Buffer dx(count), dx_ex(count), dz(count), dscale(parameters()), dbias(parameters());
  CUDNN_OK(cudnnBatchNormalizationBackwardEx(
      dnn, mode(), ops(), &one, &zero, &one, &zero, desc, x_device.data(), desc, y_device.data(), desc,
      dy_device.data(), desc, dz.data(), desc, dx.data(), parameter_desc, scale.data(), bias.data(),
      dscale.data(), dbias.data(), epsilon, saved_mean.data(), saved_inverse.data(), relu, workspace.data(),
      backward_bytes, reserve.data(), reserve_bytes));
  CUDNN_OK(cudnnNormalizationBackward(
      dnn, norm_mode, norm_ops, CUDNN_NORM_ALGO_STANDARD, &one, &zero, &one, &zero, desc, x_device.data(),
      desc, y_device.data(), desc, dy_device.data(), desc, dz.data(), desc, dx_ex.data(), parameter_desc,
      scale.data(), bias.data(), dscale.data(), dbias.data(), epsilon, mean_desc, saved_mean.data(),
      saved_inverse.data(), relu, workspace.data(), backward_bytes, reserve.data(), reserve_bytes, 1));
  EXPECT_EQ(dx_ex.get(), dx.get());

  CUDNN_OK(cudnnBatchNormalizationForwardInference(dnn, mode(), &one, &zero, desc, x_device.data(), desc,
                                                   plain.data(), parameter_desc, scale.data(), bias.data(),
                                                   mean.data(), variance.data(), epsilon));
  CUDNN_OK(cudnnNormalizationForwardInference(dnn, norm_mode, norm_ops, CUDNN_NORM_ALGO_STANDARD, &one, &zero,
                                              desc, x_device.data(), parameter_desc, scale.data(),
                                              bias.data(), mean_desc, mean.data(), variance.data(), desc,
                                              z_device.data(), relu, desc, y_device.data(), epsilon, 1));
  EXPECT_EQ(y_device.get(), behind(plain.get()));
}

INSTANTIATE_TEST_SUITE_P(ModesAndOperations, NormEx,
                         ::testing::Combine(::testing::Values(CUDNN_BATCHNORM_SPATIAL,
                                                              CUDNN_BATCHNORM_PER_ACTIVATION),
                                            ::testing::Values(0, 1, 2)));

}  // namespace
}  // namespace softlib
