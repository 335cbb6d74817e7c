// ReLU and addition.
#include <stdexcept>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class ReluLayer final : public Layer {
 public:
  ReluLayer(std::string name, Relu how) : Layer(std::move(name)), in_place_(how == Relu::in_place) {}
  ~ReluLayer() override {
    if (activation_ != nullptr) cudnnDestroyActivationDescriptor(activation_);
  }

  const char* kind() const override { return "relu"; }
  Kept kept() const override { return {!in_place_, true}; }
  bool in_place() const override { return in_place_; }
  Shape output(const std::vector<Shape>& inputs) override { return inputs[0]; }

  void prepare(Context&, const std::vector<Shape>&, Random&) override {
    check(cudnnCreateActivationDescriptor(&activation_), "cudnnCreateActivationDescriptor");
    check(cudnnSetActivationDescriptor(activation_, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0),
          "cudnnSetActivationDescriptor");
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    Tensor y = in_place_ ? x : output_tensor(context, std::move(place), x.shape());
    check(cudnnActivationForward(context.cudnn(), activation_, &one, context.descriptor(x), x.data(), &zero,
                                 context.descriptor(y), y.data()),
          "cudnnActivationForward");
    if (training) input_ = x, output_ = y;
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    if (*dx[0]) throw std::logic_error(name() + ": its input has other readers after it");
    // y > 0 exactly where x > 0: in place, the output stands in for the input that it has overwritten.
    const Tensor x = std::exchange(input_, {}), y = std::exchange(output_, {});
    const auto dy_desc = context.descriptor(dy);
    check(
        cudnnActivationBackward(context.cudnn(), activation_, &one, context.descriptor(y), y.data(), dy_desc,
                                dy.data(), context.descriptor(x), x.data(), &zero, dy_desc, dy.data()),
        "cudnnActivationBackward");
    *dx[0] = std::move(dy);
  }

 private:
  cudnnActivationDescriptor_t activation_ = nullptr;
  bool in_place_;
  Tensor input_, output_;
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

std::unique_ptr<Layer> relu(std::string name, Relu how) {
  return std::make_unique<ReluLayer>(std::move(name), how);
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
