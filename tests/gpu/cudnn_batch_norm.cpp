// Can the output of batch norm be made again from the statistics that it saved, in one pass over the input?
// Only if one of these formulas rounds as cuDNN does.
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "tests/gpu/cudnn_sections.h"

namespace pooch::facts {
namespace {

struct Channel {
  float mean, inverse, scale, bias;
};

struct Formula {
  bool known;  // to pooch (core/substitute.h)
  const char* name;
  float (*y)(float x, const Channel&);
};

// nvcc fuses a product and the sum it goes into, so each ends in an fma. This file is compiled without
// contraction (tests/meson.build): what is no fma here rounds twice.
constexpr Formula formulas[] = {
    {true, "scaled_then_fma",
     [](float x, const Channel& c) { return std::fma((x - c.mean) * c.scale, c.inverse, c.bias); }},
    {true, "normalised_then_fma",
     [](float x, const Channel& c) { return std::fma((x - c.mean) * c.inverse, c.scale, c.bias); }},
    {true, "centred_then_fma",
     [](float x, const Channel& c) { return std::fma(x - c.mean, c.scale * c.inverse, c.bias); }},
    {true, "one_fma",
     [](float x, const Channel& c) {
       const float slope = c.scale * c.inverse;
       return std::fma(x, slope, c.bias - c.mean * slope);
     }},
    {false, "two_fmas",
     [](float x, const Channel& c) {
       const float slope = c.scale * c.inverse;
       return std::fma(x, slope, std::fma(-c.mean, slope, c.bias));
     }},
    {false, "centred_rounded",
     [](float x, const Channel& c) { return (x - c.mean) * (c.scale * c.inverse) + c.bias; }},
    {false, "normalised_rounded",
     [](float x, const Channel& c) { return (x - c.mean) * c.inverse * c.scale + c.bias; }},
};

struct Case {
  const char* name;
  cudnnBatchNormMode_t mode;
  cudnnTensorFormat_t format;
  Numbers dims;
};

class Descriptor {
 public:
  Descriptor() { cudnn_graph::check(cudnnCreateTensorDescriptor(&raw_), "cudnnCreateTensorDescriptor"); }
  ~Descriptor() { cudnnDestroyTensorDescriptor(raw_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator cudnnTensorDescriptor_t() const { return raw_; }

 private:
  cudnnTensorDescriptor_t raw_ = nullptr;
};

class BatchNorm {
 public:
  BatchNorm(Bench& bench, const Case& how)
      : bench_(bench),
        how_(how),
        handle_(bench.stream),
        x_(how.dims),
        y_(how.dims),
        scale_({1, how.dims[1], 1, 1}),
        bias_({1, how.dims[1], 1, 1}),
        mean_({1, how.dims[1], 1, 1}),
        inverse_({1, how.dims[1], 1, 1}) {
    const auto size = [&](int i) { return static_cast<int>(how.dims[static_cast<std::size_t>(i)]); };
    cudnn_graph::check(
        cudnnSetTensor4dDescriptor(data_, how.format, CUDNN_DATA_FLOAT, size(0), size(1), size(2), size(3)),
        "cudnnSetTensor4dDescriptor");
    cudnn_graph::check(cudnnDeriveBNTensorDescriptor(parameters_, data_, how.mode),
                       "cudnnDeriveBNTensorDescriptor");
    for (const Tensor* each : {&x_, &scale_, &bias_}) each->fill(bench.stream);
  }
  Json compare() {
    const auto expected = run();
    const bool repeats = same_bits(run(), expected) == expected.size();
    const auto x = x_.read(bench_.stream);
    const auto channels = read_channels();
    Json differing, by_others, in_channels;
    for (const Formula& formula : formulas) {
      std::vector<float> y(x.size());
      std::set<std::size_t> wrong;
      for (std::size_t i = 0; i < x.size(); ++i) {
        y[i] = formula.y(x[i], channels[channel_of(i)]);
        if (std::bit_cast<unsigned>(y[i]) != std::bit_cast<unsigned>(expected[i]))
          wrong.insert(channel_of(i));
      }
      (formula.known ? differing : by_others)[formula.name] = x.size() - same_bits(y, expected);
      in_channels[formula.name] = wrong.size();
    }
    return {{"case", how_.name},
            {"elements", x.size()},
            {"repeats", repeats},
            {"differing", std::move(differing)},
            {"differing_by_others", std::move(by_others)},
            {"channels_that_differ", std::move(in_channels)}};
  }

 private:
  std::vector<float> run() {
    constexpr float one = 1, zero = 0;
    y_.clear(bench_.stream);
    cudnn_graph::check(
        cudnnBatchNormalizationForwardTraining(handle_, how_.mode, &one, &zero, data_, x_.device(), data_,
                                               y_.device(), parameters_, scale_.device(), bias_.device(), 1.0,
                                               nullptr, nullptr, 1e-5, mean_.device(), inverse_.device()),
        "cudnnBatchNormalizationForwardTraining");
    return y_.read(bench_.stream);
  }
  std::vector<Channel> read_channels() const {
    const auto mean = mean_.read(bench_.stream), inverse = inverse_.read(bench_.stream),
               scale = scale_.read(bench_.stream), bias = bias_.read(bench_.stream);
    std::vector<Channel> channels(mean.size());
    for (std::size_t i = 0; i < channels.size(); ++i) channels[i] = {mean[i], inverse[i], scale[i], bias[i]};
    return channels;
  }
  std::size_t channel_of(std::size_t i) const {
    const auto channels = static_cast<std::size_t>(how_.dims[1]),
               plane = static_cast<std::size_t>(how_.dims[2] * how_.dims[3]);
    return (how_.format == CUDNN_TENSOR_NHWC ? i : i / plane) % channels;
  }
  // A NaN is like no other.
  static std::size_t same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    std::size_t same = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
      same += std::bit_cast<unsigned>(a[i]) == std::bit_cast<unsigned>(b[i]) && !std::isnan(a[i]) ? 1 : 0;
    return same;
  }

  Bench& bench_;
  const Case& how_;
  Handle handle_;
  Tensor x_, y_, scale_, bias_, mean_, inverse_;
  Descriptor data_, parameters_;
};

}  // namespace

void batch_norm_saved_section(Bench& bench, Json& out) {
  if (!bench.holds_bytes) throw NoAnswer("memory has no content here");
  // As ResNet-50 has them, and as PyTorch calls for them in channels_last.
  const std::array cases{Case{"64 x 56 x 56", CUDNN_BATCHNORM_SPATIAL, CUDNN_TENSOR_NCHW, {8, 64, 56, 56}},
                         Case{"256 x 14 x 14", CUDNN_BATCHNORM_SPATIAL, CUDNN_TENSOR_NCHW, {8, 256, 14, 14}},
                         Case{"2048 x 7 x 7", CUDNN_BATCHNORM_SPATIAL, CUDNN_TENSOR_NCHW, {8, 2048, 7, 7}},
                         Case{"256 x 14 x 14, persistent",
                              CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                              CUDNN_TENSOR_NCHW,
                              {8, 256, 14, 14}},
                         Case{"256 x 14 x 14, persistent, channels last",
                              CUDNN_BATCHNORM_SPATIAL_PERSISTENT,
                              CUDNN_TENSOR_NHWC,
                              {8, 256, 14, 14}}};
  Json made = Json::array();
  for (const Case& one : cases) made.push_back(BatchNorm(bench, one).compare());
  out = {{"cases", std::move(made)}};
}

}  // namespace pooch::facts
