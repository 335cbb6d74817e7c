#include <cmath>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class Convolution final : public Layer {
 public:
  Convolution(std::string name, int channels, Window window)
      : Layer(std::move(name)), channels_(channels), window_(window) {
    check(cudnnCreateFilterDescriptor(&filter_), "cudnnCreateFilterDescriptor");
    check(cudnnCreateConvolutionDescriptor(&convolution_), "cudnnCreateConvolutionDescriptor");
  }
  ~Convolution() override {
    cudnnDestroyConvolutionDescriptor(convolution_);
    cudnnDestroyFilterDescriptor(filter_);
  }

  Shape build(Context& context, const std::vector<Shape>& inputs, Random& random) override {
    const Shape in = inputs[0];
    const Shape weights{channels_, in.c, window_.size, window_.size};
    check(cudnnSetFilter4dDescriptor(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, weights.n, weights.c,
                                     weights.h, weights.w),
          "cudnnSetFilter4dDescriptor");
    check(cudnnSetConvolution2dDescriptor(convolution_, window_.padding, window_.padding, window_.stride,
                                          window_.stride, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolution2dDescriptor");
    // The default may round the operands to TF32.
    check(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH), "cudnnSetConvolutionMathType");

    // He et al., "Delving Deep into Rectifiers" (2015), equation 15: variance 2 / fan-out.
    const float deviation = std::sqrt(2.0F / static_cast<float>(channels_ * window_.size * window_.size));
    std::vector<float> values(weights.count());
    for (float& value : values) value = random.normal() * deviation;
    weights_ = {name() + ".weight", context.upload(values.data(), weights), {}, {}};
    return {in.n, channels_, window_.output(in.h), window_.output(in.w)};
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, bool training) override {
    Tensor& x = inputs[0];
    const Shape in = x.shape();
    const Shape out{in.n, channels_, window_.output(in.h), window_.output(in.w)};
    const auto x_desc = context.descriptor(in);
    const auto y_desc = context.descriptor(out);
    const auto algorithm = context.algorithms.forward;
    Tensor y = context.memory.tensor(out);
    std::size_t bytes = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(context.cudnn(), x_desc, filter_, convolution_, y_desc,
                                                  algorithm, &bytes),
          "cudnnGetConvolutionForwardWorkspaceSize");
    const auto workspace = context.memory.workspace(bytes);
    check(cudnnConvolutionForward(context.cudnn(), &one, x_desc, x.data(), filter_, weights_.value.data(),
                                  convolution_, algorithm, workspace ? workspace->data() : nullptr, bytes,
                                  &zero, y_desc, y.data()),
          "cudnnConvolutionForward");
    if (training) input_ = std::move(x);
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor x = std::exchange(input_, {});
    if (dx[0] != nullptr) backward_data(context, dy, x.shape(), *dx[0]);
    backward_filter(context, dy, x);
  }

  std::vector<Parameter*> parameters() override { return {&weights_}; }

 private:
  void backward_data(Context& context, const Tensor& dy, Shape in, Tensor& dx) {
    const float* beta = open_gradient(context, dx, in);
    const auto dx_desc = context.descriptor(in);
    const auto dy_desc = context.descriptor(dy.shape());
    const auto algorithm = context.algorithms.backward_data;
    std::size_t bytes = 0;
    check(cudnnGetConvolutionBackwardDataWorkspaceSize(context.cudnn(), filter_, dy_desc, convolution_,
                                                       dx_desc, algorithm, &bytes),
          "cudnnGetConvolutionBackwardDataWorkspaceSize");
    const auto workspace = context.memory.workspace(bytes);
    check(cudnnConvolutionBackwardData(
              context.cudnn(), &one, filter_, weights_.value.data(), dy_desc, dy.data(), convolution_,
              algorithm, workspace ? workspace->data() : nullptr, bytes, beta, dx_desc, dx.data()),
          "cudnnConvolutionBackwardData");
  }

  void backward_filter(Context& context, const Tensor& dy, const Tensor& x) {
    const auto x_desc = context.descriptor(x.shape());
    const auto dy_desc = context.descriptor(dy.shape());
    const auto algorithm = context.algorithms.backward_filter;
    weights_.gradient = context.memory.tensor(weights_.value.shape());
    std::size_t bytes = 0;
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(context.cudnn(), x_desc, dy_desc, convolution_,
                                                         filter_, algorithm, &bytes),
          "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    const auto workspace = context.memory.workspace(bytes);
    check(cudnnConvolutionBackwardFilter(context.cudnn(), &one, x_desc, x.data(), dy_desc, dy.data(),
                                         convolution_, algorithm, workspace ? workspace->data() : nullptr,
                                         bytes, &zero, filter_, weights_.gradient.data()),
          "cudnnConvolutionBackwardFilter");
  }

  int channels_;
  Window window_;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  Parameter weights_;
  Tensor input_;
};

}  // namespace

std::unique_ptr<Layer> convolution(std::string name, int channels, Window window) {
  return std::make_unique<Convolution>(std::move(name), channels, window);
}

}  // namespace train
