#include <algorithm>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

constexpr auto mode = CUDNN_BATCHNORM_SPATIAL;
constexpr double epsilon = 1e-5;

Tensor filled(Context& context, Shape shape, float value) {
  return context.upload(std::vector<float>(shape.count(), value).data(), shape);
}

class BatchNorm final : public Layer {
 public:
  BatchNorm(std::string name, float gamma) : Layer(std::move(name)), gamma_(gamma) {}

  const char* kind() const override { return "batch_norm"; }
  Kept kept() const override { return {true, false, {"mean", "inverse_variance"}}; }
  Shape output(const std::vector<Shape>& inputs) override { return inputs[0]; }

  void prepare(Context& context, const std::vector<Shape>& inputs, Random&) override {
    channels_ = inputs[0].per_channel();
    scale_ = {name() + ".scale", filled(context, channels_, gamma_), {}, {}};
    bias_ = {name() + ".bias", filled(context, channels_, 0.0F), {}, {}};
    running_mean_ = filled(context, channels_, 0.0F);
    running_variance_ = filled(context, channels_, 1.0F);
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    Tensor y = output_tensor(context, std::move(place), x.shape());
    const auto x_desc = context.descriptor(x);
    const auto y_desc = context.descriptor(y);
    const auto channel_desc = context.descriptor(channels_);
    if (!training) {
      check(cudnnBatchNormalizationForwardInference(context.cudnn(), mode, &one, &zero, x_desc, x.data(),
                                                    y_desc, y.data(), channel_desc, scale_.value.data(),
                                                    bias_.value.data(), running_mean_.data(),
                                                    running_variance_.data(), epsilon),
            "cudnnBatchNormalizationForwardInference");
      return y;
    }
    saved_mean_ = context.memory.tensor(channels_);
    saved_inverse_ = context.memory.tensor(channels_);
    // A plain mean of the first iterations, then a quickly moving one: runs are short and weights change
    // fast.
    const double factor = std::max(0.4, 1.0 / ++updates_);
    check(cudnnBatchNormalizationForwardTraining(
              context.cudnn(), mode, &one, &zero, x_desc, x.data(), y_desc, y.data(), channel_desc,
              scale_.value.data(), bias_.value.data(), factor, running_mean_.data(), running_variance_.data(),
              epsilon, saved_mean_.data(), saved_inverse_.data()),
          "cudnnBatchNormalizationForwardTraining");
    input_ = std::move(x);
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor x = std::exchange(input_, {});
    const Tensor mean = std::exchange(saved_mean_, {});
    const Tensor inverse = std::exchange(saved_inverse_, {});
    const float* beta = open_gradient(context, *dx[0], x.shape());
    const float* parameter_beta = open_gradient(context, scale_.gradient, channels_);
    open_gradient(context, bias_.gradient, channels_);
    check(cudnnBatchNormalizationBackward(
              context.cudnn(), mode, &one, beta, &one, parameter_beta, context.descriptor(x), x.data(),
              context.descriptor(dy), dy.data(), context.descriptor(*dx[0]), dx[0]->data(),
              context.descriptor(channels_), scale_.value.data(), scale_.gradient.data(),
              bias_.gradient.data(), epsilon, mean.data(), inverse.data()),
          "cudnnBatchNormalizationBackward");
  }

  std::vector<Parameter*> parameters() override { return {&scale_, &bias_}; }

 private:
  float gamma_;
  int updates_ = 0;
  Shape channels_;
  Parameter scale_, bias_;
  Tensor running_mean_, running_variance_;
  Tensor input_, saved_mean_, saved_inverse_;
};

}  // namespace

std::unique_ptr<Layer> batch_norm(std::string name, float gamma) {
  return std::make_unique<BatchNorm>(std::move(name), gamma);
}

}  // namespace train
