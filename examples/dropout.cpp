#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

// Keeps cuDNN's reserve space, which says what went. The device's generators start from one seed, so equal
// seeds drop the same elements in every run.
class Dropout final : public Layer {
 public:
  Dropout(std::string name, float probability) : Layer(std::move(name)), probability_(probability) {}
  ~Dropout() override {
    if (dropout_ != nullptr) cudnnDestroyDropoutDescriptor(dropout_);
  }

  const char* kind() const override { return "dropout"; }
  Kept kept() const override { return {false, false, {"reserve"}}; }
  Shape output(const std::vector<Shape>& inputs) override { return inputs[0]; }

  void prepare(Context& context, const std::vector<Shape>&, Random& random) override {
    std::size_t bytes = 0;
    check(cudnnDropoutGetStatesSize(context.cudnn(), &bytes), "cudnnDropoutGetStatesSize");
    states_ = context.memory.workspace(bytes);
    check(cudnnCreateDropoutDescriptor(&dropout_), "cudnnCreateDropoutDescriptor");
    check(cudnnSetDropoutDescriptor(dropout_, context.cudnn(), probability_, states_->data(), bytes,
                                    random.bits()),
          "cudnnSetDropoutDescriptor");
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    if (!training) return std::move(inputs[0]);
    const Tensor& x = inputs[0];
    Tensor y = output_tensor(context, std::move(place), x.shape());
    std::size_t bytes = 0;
    check(cudnnDropoutGetReserveSpaceSize(context.descriptor(x), &bytes), "cudnnDropoutGetReserveSpaceSize");
    reserve_ = context.memory.workspace(bytes);
    check(cudnnDropoutForward(context.cudnn(), dropout_, context.descriptor(x), x.data(),
                              context.descriptor(y), y.data(), reserve_->data(), bytes),
          "cudnnDropoutForward");
    return y;
  }

  // The gradient is made in place.
  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const auto reserve = std::exchange(reserve_, nullptr);
    const auto desc = context.descriptor(dy);
    check(cudnnDropoutBackward(context.cudnn(), dropout_, desc, dy.data(), desc, dy.data(), reserve->data(),
                               reserve->bytes()),
          "cudnnDropoutBackward");
    *dx[0] = std::move(dy);
  }

 private:
  float probability_;
  cudnnDropoutDescriptor_t dropout_ = nullptr;
  std::shared_ptr<Buffer> states_, reserve_;
};

}  // namespace

std::unique_ptr<Layer> dropout(std::string name, float probability) {
  return std::make_unique<Dropout>(std::move(name), probability);
}

}  // namespace train
