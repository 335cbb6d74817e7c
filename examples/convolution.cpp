#include <cmath>
#include <utility>

#include "check.h"
#include "layers.h"
#include "trials.h"

namespace train {
namespace {

class Convolution final : public Layer {
 public:
  Convolution(std::string name, int channels, Window window, ConvolutionForm form)
      : Layer(std::move(name)), channels_(channels), window_(window), form_(form) {}
  ~Convolution() override {
    if (convolution_ != nullptr) cudnnDestroyConvolutionDescriptor(convolution_);
    if (filter_ != nullptr) cudnnDestroyFilterDescriptor(filter_);
  }

  const char* kind() const override { return "convolution"; }
  Kept kept() const override { return {true, false}; }
  std::optional<Geometry> geometry(Shape in) const override {
    return Geometry{window_.sizes(in), window_.strides(in), window_.paddings(in), form_.groups};
  }
  Shape output(const std::vector<Shape>& inputs) override { return window_.output(inputs[0], channels_); }

  void prepare(Context& context, const std::vector<Shape>& inputs, Random& random) override {
    const Shape in = inputs[0];
    describe(in);
    // He et al., "Delving Deep into Rectifiers" (2015), equation 15: variance 2 / fan-out.
    const Shape weights{channels_, in.c / form_.groups, window_.size, window_.size,
                        in.d == 0 ? 0 : window_.size};
    const auto fan_out = channels_ / form_.groups * weights.positions();
    const float deviation = std::sqrt(2.0F / static_cast<float>(fan_out));
    const std::vector<float> values = random.normals(weights.count(), deviation);
    weights_ = {name() + ".weight", context.upload(values.data(), weights), {}, {}};
    if (!form_.bias) return;
    const Shape bias = Shape{1, channels_, 1, 1, in.d}.per_channel();
    bias_ = {name() + ".bias", context.upload(std::vector<float>(bias.count()).data(), bias), {}, {}};
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    Tensor y = output_tensor(context, std::move(place), window_.output(x.shape(), channels_));
    const auto x_desc = context.descriptor(x);
    const auto y_desc = context.descriptor(y);
    const Convolved shape{x, y, filter_, convolution_, form()};
    const auto algorithm = forward_algorithm(context, shape, x.data(), weights_.value.data(), y.data());
    std::size_t bytes = 0;
    check(cudnnGetConvolutionForwardWorkspaceSize(context.cudnn(), x_desc, filter_, convolution_, y_desc,
                                                  algorithm, &bytes),
          "cudnnGetConvolutionForwardWorkspaceSize");
    auto workspace = context.memory.workspace(bytes);
    check(cudnnConvolutionForward(context.cudnn(), &one, x_desc, x.data(), filter_, weights_.value.data(),
                                  convolution_, algorithm, workspace ? workspace->data() : nullptr, bytes,
                                  &zero, y_desc, y.data()),
          "cudnnConvolutionForward");
    workspace.reset();
    if (form_.bias) {
      check(cudnnAddTensor(context.cudnn(), &one, context.descriptor(bias_.value), bias_.value.data(), &one,
                           y_desc, y.data()),
            "cudnnAddTensor");
    }
    if (training) input_ = std::move(x);
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor x = std::exchange(input_, {});
    if (form_.bias) {
      const float* beta = open_gradient(context, bias_.gradient, bias_.value.shape());
      check(cudnnConvolutionBackwardBias(context.cudnn(), &one, context.descriptor(dy), dy.data(), beta,
                                         context.descriptor(bias_.gradient), bias_.gradient.data()),
            "cudnnConvolutionBackwardBias");
    }
    if (dx[0] != nullptr) backward_data(context, dy, x.shape(), *dx[0]);
    backward_filter(context, dy, x);
  }

  std::vector<Parameter*> parameters() override {
    return form_.bias ? std::vector{&weights_, &bias_} : std::vector{&weights_};
  }

 private:
  void describe(Shape in) {
    check(cudnnCreateFilterDescriptor(&filter_), "cudnnCreateFilterDescriptor");
    std::vector<int> sizes = window_.sizes(in);
    const int rank = static_cast<int>(sizes.size());
    sizes.insert(sizes.begin(), {channels_, in.c / form_.groups});
    check(cudnnSetFilterNdDescriptor(filter_, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, rank + 2, sizes.data()),
          "cudnnSetFilterNdDescriptor");
    check(cudnnCreateConvolutionDescriptor(&convolution_), "cudnnCreateConvolutionDescriptor");
    const std::vector<int> dilations(rank, 1);
    check(cudnnSetConvolutionNdDescriptor(convolution_, rank, window_.paddings(in).data(),
                                          window_.strides(in).data(), dilations.data(),
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
          "cudnnSetConvolutionNdDescriptor");
    check(cudnnSetConvolutionGroupCount(convolution_, form_.groups), "cudnnSetConvolutionGroupCount");
    // The default may round the operands to TF32.
    check(cudnnSetConvolutionMathType(convolution_, CUDNN_FMA_MATH), "cudnnSetConvolutionMathType");
  }

  void backward_data(Context& context, const Tensor& dy, Shape in, Tensor& dx) {
    const float* beta = open_gradient(context, dx, in);
    const auto dx_desc = context.descriptor(dx);
    const auto dy_desc = context.descriptor(dy);
    const Convolved shape{dx, dy, filter_, convolution_, form()};
    const auto algorithm =
        backward_data_algorithm(context, shape, weights_.value.data(), dy.data(), {dx, *beta != 0});
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
    const auto x_desc = context.descriptor(x);
    const auto dy_desc = context.descriptor(dy);
    Tensor& dw = weights_.gradient;
    const float* beta = open_gradient(context, dw, weights_.value.shape());
    const Convolved shape{x, dy, filter_, convolution_, form()};
    const auto algorithm = backward_filter_algorithm(context, shape, x.data(), dy.data(), {dw, *beta != 0});
    std::size_t bytes = 0;
    check(cudnnGetConvolutionBackwardFilterWorkspaceSize(context.cudnn(), x_desc, dy_desc, convolution_,
                                                         filter_, algorithm, &bytes),
          "cudnnGetConvolutionBackwardFilterWorkspaceSize");
    const auto workspace = context.memory.workspace(bytes);
    check(cudnnConvolutionBackwardFilter(context.cudnn(), &one, x_desc, x.data(), dy_desc, dy.data(),
                                         convolution_, algorithm, workspace ? workspace->data() : nullptr,
                                         bytes, beta, filter_, dw.data()),
          "cudnnConvolutionBackwardFilter");
  }

  std::vector<int> form() const {
    return {window_.size, window_.stride, window_.padding, window_.depth_stride, form_.groups};
  }

  int channels_;
  Window window_;
  ConvolutionForm form_;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t convolution_ = nullptr;
  Parameter weights_, bias_;
  Tensor input_;
};

}  // namespace

std::unique_ptr<Layer> convolution(std::string name, int channels, Window window, ConvolutionForm form) {
  return std::make_unique<Convolution>(std::move(name), channels, window, form);
}

}  // namespace train
