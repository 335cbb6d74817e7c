// ReLU and addition: both work in place.
#include <stdexcept>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class Relu final : public Layer {
 public:
  explicit Relu(std::string name) : Layer(std::move(name)) {
    check(cudnnCreateActivationDescriptor(&activation_), "cudnnCreateActivationDescriptor");
    check(cudnnSetActivationDescriptor(activation_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0),
          "cudnnSetActivationDescriptor");
  }
  ~Relu() override { cudnnDestroyActivationDescriptor(activation_); }

  Shape build(Context&, const std::vector<Shape>& inputs, Random&) override { return inputs[0]; }
  bool in_place() const override { return true; }

  Tensor forward(Context& context, std::vector<Tensor> inputs, bool training) override {
    Tensor& y = inputs[0];
    const auto desc = context.descriptor(y.shape());
    check(cudnnActivationForward(context.cudnn(), activation_, &one, desc, y.data(), &zero, desc, y.data()),
          "cudnnActivationForward");
    if (training) output_ = y;
    return std::move(y);
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor y = std::exchange(output_, {});
    const auto desc = context.descriptor(y.shape());
    // y > 0 exactly where x > 0, so the output stands in for the input that it has overwritten.
    check(cudnnActivationBackward(context.cudnn(), activation_, &one, desc, y.data(), desc, dy.data(), desc,
                                  y.data(), &zero, desc, dy.data()),
          "cudnnActivationBackward");
    *dx[0] = std::move(dy);
  }

 private:
  cudnnActivationDescriptor_t activation_ = nullptr;
  Tensor output_;
};

class Addition final : public Layer {
 public:
  using Layer::Layer;

  Shape build(Context&, const std::vector<Shape>& inputs, Random&) override {
    if (inputs[0] != inputs[1]) throw std::logic_error(name() + ": the shapes differ");
    return inputs[0];
  }
  bool in_place() const override { return true; }

  Tensor forward(Context& context, std::vector<Tensor> inputs, bool) override {
    Tensor& sum = inputs[0];
    const auto desc = context.descriptor(sum.shape());
    check(cudnnAddTensor(context.cudnn(), &one, desc, inputs[1].data(), &one, desc, sum.data()),
          "cudnnAddTensor");
    return std::move(sum);
  }

  // Both branches read the one gradient; whoever accumulates into it does so after the other has read it.
  void backward(Context&, Tensor dy, const std::vector<GradientSlot>& dx) override {
    *dx[0] = dy;
    *dx[1] = std::move(dy);
  }
};

}  // namespace

std::unique_ptr<Layer> relu(std::string name) {
  return std::make_unique<Relu>(std::move(name));
}
std::unique_ptr<Layer> addition(std::string name) {
  return std::make_unique<Addition>(std::move(name));
}

const float* open_gradient(Context& context, Tensor& gradient, Shape shape) {
  if (!gradient) {
    gradient = context.memory.tensor(shape);
    return &zero;
  }
  if (gradient.shared()) throw std::logic_error("a gradient that another layer still reads would be changed");
  return &one;
}

}  // namespace train
