// ReLU and addition: both work in place.
#include <stdexcept>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class Relu final : public Layer {
 public:
  using Layer::Layer;
  ~Relu() override {
    if (activation_ != nullptr) cudnnDestroyActivationDescriptor(activation_);
  }

  const char* kind() const override { return "relu"; }
  Kept kept() const override { return {false, true}; }
  bool in_place() const override { return true; }
  Shape output(const std::vector<Shape>& inputs) override { return inputs[0]; }

  void prepare(Context&, const std::vector<Shape>&, Random&) override {
    check(cudnnCreateActivationDescriptor(&activation_), "cudnnCreateActivationDescriptor");
    check(cudnnSetActivationDescriptor(activation_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0),
          "cudnnSetActivationDescriptor");
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor, bool training) override {
    Tensor& y = inputs[0];
    const auto desc = context.descriptor(y);
    check(cudnnActivationForward(context.cudnn(), activation_, &one, desc, y.data(), &zero, desc, y.data()),
          "cudnnActivationForward");
    if (training) output_ = y;
    return std::move(y);
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor y = std::exchange(output_, {});
    const auto y_desc = context.descriptor(y);
    const auto dy_desc = context.descriptor(dy);
    // y > 0 exactly where x > 0, so the output stands in for the input that it has overwritten.
    check(cudnnActivationBackward(context.cudnn(), activation_, &one, y_desc, y.data(), dy_desc, dy.data(),
                                  y_desc, y.data(), &zero, dy_desc, dy.data()),
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

  const char* kind() const override { return "addition"; }
  Kept kept() const override { return {false, false}; }
  bool in_place() const override { return true; }
  Shape output(const std::vector<Shape>& inputs) override {
    if (inputs[0] != inputs[1]) throw std::logic_error(name() + ": the shapes differ");
    return inputs[0];
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor, bool) override {
    Tensor& sum = inputs[0];
    check(cudnnAddTensor(context.cudnn(), &one, context.descriptor(inputs[1]), inputs[1].data(), &one,
                         context.descriptor(sum), sum.data()),
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

Tensor output_tensor(Context& context, Tensor place, Shape shape) {
  return place ? std::move(place) : context.memory.tensor(shape);
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
