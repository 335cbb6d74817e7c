// Convolutions of the software cuDNN against plain loops.
#include <array>
#include <string>
#include <thread>

#include "tests/softgpu/softlib_support.h"

// libgomp's, by which oneDNN counts its threads.
extern "C" {
void omp_set_num_threads(int);
int omp_get_max_threads();
}

namespace softlib {
namespace {

struct Case {
  int n, c, h, w, k, r, s;
  int pad_h, pad_w, stride_h, stride_w, dilation_h, dilation_w, groups;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;

  int p() const { return (h + 2 * pad_h - (r - 1) * dilation_h - 1) / stride_h + 1; }
  int q() const { return (w + 2 * pad_w - (s - 1) * dilation_w - 1) / stride_w + 1; }
  std::size_t x_count() const { return static_cast<std::size_t>(n) * c * h * w; }
  std::size_t w_count() const { return static_cast<std::size_t>(k) * (c / groups) * r * s; }
  std::size_t y_count() const { return static_cast<std::size_t>(n) * k * p() * q(); }

  // f(index in x, index in w, index in y) for every product of the convolution.
  template <class F>
  void each(F f) const {
    const int per_group = c / groups;
    for (int in = 0; in < n; ++in)
      for (int ik = 0; ik < k; ++ik)
        for (int ip = 0; ip < p(); ++ip)
          for (int iq = 0; iq < q(); ++iq)
            for (int ic = 0; ic < per_group; ++ic)
              for (int ir = 0; ir < r; ++ir)
                for (int is = 0; is < s; ++is) {
                  const int y = ip * stride_h - pad_h + ir * dilation_h;
                  const int x = iq * stride_w - pad_w + is * dilation_w;
                  if (y < 0 || y >= h || x < 0 || x >= w) continue;
                  const int channel = ik / (k / groups) * per_group + ic;
                  const bool flip = mode == CUDNN_CONVOLUTION;
                  const int fr = flip ? r - 1 - ir : ir;
                  const int fs = flip ? s - 1 - is : is;
                  f(static_cast<std::size_t>(((in * c + channel) * h + y) * w + x),
                    static_cast<std::size_t>(((ik * per_group + ic) * r + fr) * s + fs),
                    static_cast<std::size_t>(((in * k + ik) * p() + ip) * q() + iq));
                }
  }
};

Floats to_floats(const std::vector<double>& from, float alpha, const Floats& old, float beta) {
  Floats result(from.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    result[i] = static_cast<float>(alpha * from[i] + (beta == 0 ? 0.0 : beta * static_cast<double>(old[i])));
  }
  return result;
}

class Convolution : public Library, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    Library::SetUp();
    CUDNN_OK(cudnnCreateConvolutionDescriptor(&conv));
    CUDNN_OK(cudnnCreateFilterDescriptor(&filter));
  }
  void TearDown() override {
    cudnnDestroyConvolutionDescriptor(conv);
    cudnnDestroyFilterDescriptor(filter);
    Library::TearDown();
  }
  void describe(const Case& c) {
    CUDNN_OK(cudnnSetConvolution2dDescriptor(conv, c.pad_h, c.pad_w, c.stride_h, c.stride_w, c.dilation_h,
                                             c.dilation_w, c.mode, CUDNN_DATA_FLOAT));
    CUDNN_OK(cudnnSetConvolutionGroupCount(conv, c.groups));
    CUDNN_OK(cudnnSetFilter4dDescriptor(filter, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, c.k, c.c / c.groups, c.r,
                                        c.s));
  }
  cudnnConvolutionDescriptor_t conv = nullptr;
  cudnnFilterDescriptor_t filter = nullptr;
};

TEST_P(Convolution, ForwardWithEveryAlgorithm) {
  const Case c = GetParam();
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  int dims[4];
  CUDNN_OK(
      cudnnGetConvolution2dForwardOutputDim(conv, x_desc, filter, &dims[0], &dims[1], &dims[2], &dims[3]));
  EXPECT_EQ((std::array{dims[0], dims[1], dims[2], dims[3]}), (std::array{c.n, c.k, c.p(), c.q()}));
  const Floats x = values(c.x_count(), 1);
  const Floats w = values(c.w_count(), 2);
  const Floats old = values(c.y_count(), 3);
  std::vector<double> sums(c.y_count());
  c.each([&](auto ix, auto iw, auto iy) { sums[iy] += static_cast<double>(x[ix]) * w[iw]; });
  Buffer x_device(x);
  Buffer w_device(w);
  Buffer y_device(c.y_count());
  int returned = 0;
  cudnnConvolutionFwdAlgoPerf_t found[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  CUDNN_OK(cudnnGetConvolutionForwardAlgorithm_v7(dnn, x_desc, filter, conv, y_desc,
                                                  CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &returned, found));
  int supported = 0;
  for (int i = 0; i < returned; ++i) {
    std::size_t bytes = 0;
    const cudnnStatus_t status =
        cudnnGetConvolutionForwardWorkspaceSize(dnn, x_desc, filter, conv, y_desc, found[i].algo, &bytes);
    EXPECT_EQ(status, found[i].status);
    if (status != CUDNN_STATUS_SUCCESS) continue;
    ++supported;
    EXPECT_EQ(bytes, found[i].memory);
    Buffer workspace(bytes / 4 + 1);
    for (auto [alpha, beta] : {std::pair{1.0F, 0.0F}, std::pair{0.5F, 2.0F}}) {
      y_device.set(old);
      CUDNN_OK(cudnnConvolutionForward(dnn, &alpha, x_desc, x_device.data(), filter, w_device.data(), conv,
                                       found[i].algo, workspace.data(), bytes, &beta, y_desc,
                                       y_device.data()));
      expect_close(y_device.get(), to_floats(sums, alpha, old, beta));
    }
  }
  EXPECT_GE(supported, 2);
}

TEST_P(Convolution, BackwardDataWithEveryAlgorithm) {
  const Case c = GetParam();
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  const Floats w = values(c.w_count(), 2);
  const Floats dy = values(c.y_count(), 3);
  const Floats old = values(c.x_count(), 4);
  std::vector<double> sums(c.x_count());
  c.each([&](auto ix, auto iw, auto iy) { sums[ix] += static_cast<double>(dy[iy]) * w[iw]; });
  Buffer w_device(w);
  Buffer dy_device(dy);
  Buffer dx_device(c.x_count());
  for (int algo = 0; algo < CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT; ++algo) {
    const auto algorithm = static_cast<cudnnConvolutionBwdDataAlgo_t>(algo);
    std::size_t bytes = 0;
    if (cudnnGetConvolutionBackwardDataWorkspaceSize(dnn, filter, y_desc, conv, x_desc, algorithm, &bytes) !=
        CUDNN_STATUS_SUCCESS) {
      continue;
    }
    Buffer workspace(bytes / 4 + 1);
    for (auto [alpha, beta] : {std::pair{1.0F, 0.0F}, std::pair{-2.0F, 1.0F}}) {
      dx_device.set(old);
      CUDNN_OK(cudnnConvolutionBackwardData(dnn, &alpha, filter, w_device.data(), y_desc, dy_device.data(),
                                            conv, algorithm, workspace.data(), bytes, &beta, x_desc,
                                            dx_device.data()));
      expect_close(dx_device.get(), to_floats(sums, alpha, old, beta));
    }
  }
}

TEST_P(Convolution, BackwardFilterWithEveryAlgorithm) {
  const Case c = GetParam();
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  const Floats x = values(c.x_count(), 1);
  const Floats dy = values(c.y_count(), 3);
  const Floats old = values(c.w_count(), 4);
  std::vector<double> sums(c.w_count());
  c.each([&](auto ix, auto iw, auto iy) { sums[iw] += static_cast<double>(dy[iy]) * x[ix]; });
  Buffer x_device(x);
  Buffer dy_device(dy);
  Buffer dw_device(c.w_count());
  for (int algo = 0; algo < CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT; ++algo) {
    const auto algorithm = static_cast<cudnnConvolutionBwdFilterAlgo_t>(algo);
    std::size_t bytes = 0;
    if (cudnnGetConvolutionBackwardFilterWorkspaceSize(dnn, x_desc, y_desc, conv, filter, algorithm,
                                                       &bytes) != CUDNN_STATUS_SUCCESS) {
      continue;
    }
    Buffer workspace(bytes / 4 + 1);
    for (auto [alpha, beta] : {std::pair{1.0F, 0.0F}, std::pair{0.25F, 1.0F}}) {
      dw_device.set(old);
      CUDNN_OK(cudnnConvolutionBackwardFilter(dnn, &alpha, x_desc, x_device.data(), y_desc, dy_device.data(),
                                              conv, algorithm, workspace.data(), bytes, &beta, filter,
                                              dw_device.data()));
      expect_close(dw_device.get(), to_floats(sums, alpha, old, beta));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, Convolution,
                         ::testing::Values(Case{2, 3, 9, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1},
                                           Case{3, 16, 8, 8, 32, 1, 1, 0, 0, 1, 1, 1, 1, 1},
                                           Case{2, 3, 23, 21, 8, 7, 7, 3, 3, 2, 2, 1, 1, 1},
                                           Case{2, 8, 7, 9, 12, 3, 2, 2, 0, 2, 1, 1, 2, 4},
                                           Case{1, 16, 14, 14, 16, 3, 3, 1, 1, 1, 1, 1, 1, 16},
                                           Case{2, 64, 7, 7, 64, 1, 1, 0, 0, 2, 2, 1, 1, 1},
                                           Case{2, 5, 9, 10, 6, 5, 5, 2, 2, 1, 1, 1, 1, 1,
                                                CUDNN_CONVOLUTION}));

class ConvolutionParts : public Convolution {};

// The same bits for any address, any thread setting of the caller, any number of runs.
TEST_F(ConvolutionParts, BitsAreTheSameEverywhere) {
  const Case c{8, 16, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  const auto run = [&](std::size_t shift, Floats& y, Floats& dx, Floats& dw) {
    Buffer x(values(c.x_count(), 1), shift);
    Buffer w(values(c.w_count(), 2), shift);
    Buffer g(values(c.y_count(), 3), shift);
    Buffer y_out(c.y_count(), shift);
    Buffer dx_out(c.x_count(), shift);
    Buffer dw_out(c.w_count(), shift);
    CUDNN_OK(cudnnConvolutionForward(dnn, &one, x_desc, x.data(), filter, w.data(), conv,
                                     CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, y_desc,
                                     y_out.data()));
    CUDNN_OK(cudnnConvolutionBackwardData(dnn, &one, filter, w.data(), y_desc, g.data(), conv,
                                          CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, &zero, x_desc,
                                          dx_out.data()));
    CUDNN_OK(cudnnConvolutionBackwardFilter(dnn, &one, x_desc, x.data(), y_desc, g.data(), conv,
                                            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, nullptr, 0, &zero, filter,
                                            dw_out.data()));
    y = y_out.get();
    dx = dx_out.get();
    dw = dw_out.get();
  };
  Floats y[4], dx[4], dw[4];
  run(0, y[0], dx[0], dw[0]);
  run(3, y[1], dx[1], dw[1]);
  omp_set_num_threads(1);
  run(1, y[2], dx[2], dw[2]);
  omp_set_num_threads(5);
  std::thread([&] { run(2, y[3], dx[3], dw[3]); }).join();
  EXPECT_EQ(omp_get_max_threads(), 5);
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(y[i], y[0]);
    EXPECT_EQ(dx[i], dx[0]);
    EXPECT_EQ(dw[i], dw[0]);
  }
}

// Input and output may be slices of the channels of larger tensors; what lies between stays as it is.
TEST_F(ConvolutionParts, ChannelSlices) {
  const Case c{3, 4, 6, 6, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  describe(c);
  const int channels = 11;
  const int plane = 36;
  cudnnTensorDescriptor_t x_desc = nullptr;
  cudnnTensorDescriptor_t y_desc = nullptr;
  CUDNN_OK(cudnnCreateTensorDescriptor(&x_desc));
  CUDNN_OK(cudnnCreateTensorDescriptor(&y_desc));
  CUDNN_OK(
      cudnnSetTensor4dDescriptorEx(x_desc, CUDNN_DATA_FLOAT, c.n, c.c, 6, 6, channels * plane, plane, 6, 1));
  CUDNN_OK(
      cudnnSetTensor4dDescriptorEx(y_desc, CUDNN_DATA_FLOAT, c.n, c.k, 6, 6, channels * plane, plane, 6, 1));
  std::size_t bytes = 0;
  CUDNN_OK(cudnnGetTensorSizeInBytes(y_desc, &bytes));
  EXPECT_EQ(bytes, 4U * ((c.n - 1) * channels + c.k) * plane);
  const Floats all = values(static_cast<std::size_t>(c.n) * channels * plane, 5);
  const Floats w = values(c.w_count(), 2);
  Buffer memory(all);  // x: channels 0 to 3, y: channels 5 to 9
  Buffer w_device(w);
  CUDNN_OK(cudnnConvolutionForward(dnn, &one, x_desc, memory.data(), filter, w_device.data(), conv,
                                   CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &zero, y_desc,
                                   memory.data() + 5 * plane));
  Floats expected = all;
  std::vector<double> sums(c.y_count());
  const auto in_slice = [&](std::size_t index, int width) {
    const std::size_t image = index / static_cast<std::size_t>(width * plane);
    return image * channels * plane + index % static_cast<std::size_t>(width * plane);
  };
  c.each([&](auto ix, auto iw, auto iy) { sums[iy] += static_cast<double>(all[in_slice(ix, c.c)]) * w[iw]; });
  for (std::size_t i = 0; i < sums.size(); ++i)
    expected[in_slice(i, c.k) + 5 * plane] = static_cast<float>(sums[i]);
  expect_close(memory.get(), expected);
  cudnnDestroyTensorDescriptor(x_desc);
  cudnnDestroyTensorDescriptor(y_desc);
}

TEST_F(ConvolutionParts, BiasActivation) {
  const Case c{2, 3, 5, 5, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  Tensor bias_desc(1, c.k, 1, 1);
  const Floats x = values(c.x_count(), 1);
  const Floats w = values(c.w_count(), 2);
  const Floats z = values(c.y_count(), 3);
  const Floats bias = values(static_cast<std::size_t>(c.k), 4);
  std::vector<double> sums(c.y_count());
  c.each([&](auto ix, auto iw, auto iy) { sums[iy] += static_cast<double>(x[ix]) * w[iw]; });
  Floats expected(c.y_count());
  const float alpha1 = 0.5F;
  const float alpha2 = 3.0F;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double v = alpha1 * sums[i] + alpha2 * z[i] + bias[i / 25 % static_cast<std::size_t>(c.k)];
    expected[i] = static_cast<float>(v > 0 ? v : 0);
  }
  Buffer x_device(x), w_device(w), y_device(z), bias_device(bias);  // z in place
  cudnnActivationDescriptor_t relu = nullptr;
  CUDNN_OK(cudnnCreateActivationDescriptor(&relu));
  CUDNN_OK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0));
  CUDNN_OK(cudnnConvolutionBiasActivationForward(
      dnn, &alpha1, x_desc, x_device.data(), filter, w_device.data(), conv,
      CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, nullptr, 0, &alpha2, y_desc, y_device.data(), bias_desc,
      bias_device.data(), relu, y_desc, y_device.data()));
  expect_close(y_device.get(), expected);
  cudnnDestroyActivationDescriptor(relu);
}

TEST_F(ConvolutionParts, BackwardBias) {
  Tensor dy_desc(3, 5, 7, 3);
  Tensor db_desc(1, 5, 1, 1);
  const Floats dy = values(dy_desc.count(), 1);
  const Floats old = values(5, 2);
  Floats expected(5);
  const float alpha = 2;
  const float beta = 0.5;
  for (std::size_t k = 0; k < 5; ++k) {
    double sum = 0;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      if (i / 21 % 5 == k) sum += dy[i];
    }
    expected[k] = static_cast<float>(alpha * sum + beta * old[k]);
  }
  Buffer dy_device(dy), db_device(old);
  CUDNN_OK(
      cudnnConvolutionBackwardBias(dnn, &alpha, dy_desc, dy_device.data(), &beta, db_desc, db_device.data()));
  expect_close(db_device.get(), expected);
}

TEST_F(ConvolutionParts, RefusesWithAReason) {
  const Case c{2, 3, 8, 8, 4, 3, 3, 1, 1, 1, 1, 1, 1, 1};
  describe(c);
  Tensor x_desc(c.n, c.c, c.h, c.w);
  Tensor y_desc(c.n, c.k, c.p(), c.q());
  Tensor wrong(c.n, c.k, c.p() + 1, c.q());
  Buffer x(c.x_count()), w(c.w_count()), y(wrong.count());
  const auto forward = [&](cudnnTensorDescriptor_t to, cudnnConvolutionFwdAlgo_t algorithm) {
    return cudnnConvolutionForward(dnn, &one, x_desc, x.data(), filter, w.data(), conv, algorithm, nullptr, 0,
                                   &zero, to, y.data());
  };
  char reason[256] = "";
  EXPECT_EQ(forward(wrong, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_BAD_PARAM);
  cudnnGetLastErrorString(reason, sizeof reason);
  EXPECT_NE(std::string(reason).find("output size"), std::string::npos) << reason;
  EXPECT_EQ(forward(y_desc, CUDNN_CONVOLUTION_FWD_ALGO_DIRECT), CUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(forward(y_desc, CUDNN_CONVOLUTION_FWD_ALGO_GEMM), CUDNN_STATUS_BAD_PARAM);  // no workspace
  CUDNN_OK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_HALF, c.n, c.c, c.h, c.w));
  EXPECT_EQ(forward(y_desc, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM), CUDNN_STATUS_NOT_SUPPORTED);
  cudnnGetLastErrorString(reason, sizeof reason);
  EXPECT_NE(std::string(reason).find("CUDNN_DATA_FLOAT"), std::string::npos) << reason;
}

}  // namespace
}  // namespace softlib
