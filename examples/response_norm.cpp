#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

constexpr auto mode = CUDNN_LRN_CROSS_CHANNEL_DIM1;

// Krizhevsky et al., "ImageNet Classification with Deep Convolutional Neural Networks" (2012), section 3.3.
// cuDNN divides alpha by n; the values are those that Caffe made usual, which does so too.
class ResponseNorm final : public Layer {
 public:
  using Layer::Layer;
  ~ResponseNorm() override {
    if (norm_ != nullptr) cudnnDestroyLRNDescriptor(norm_);
  }

  const char* kind() const override { return "response_norm"; }
  Kept kept() const override { return {true, true}; }
  Shape output(const std::vector<Shape>& inputs) override { return inputs[0]; }

  void prepare(Context&, const std::vector<Shape>&, Random&) override {
    constexpr unsigned n = 5;
    constexpr double alpha = 1e-4, beta = 0.75, k = 1.0;
    check(cudnnCreateLRNDescriptor(&norm_), "cudnnCreateLRNDescriptor");
    check(cudnnSetLRNDescriptor(norm_, n, alpha, beta, k), "cudnnSetLRNDescriptor");
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    Tensor y = output_tensor(context, std::move(place), x.shape());
    check(cudnnLRNCrossChannelForward(context.cudnn(), norm_, mode, &one, context.descriptor(x), x.data(),
                                      &zero, context.descriptor(y), y.data()),
          "cudnnLRNCrossChannelForward");
    if (training) {
      input_ = std::move(x);
      output_ = y;
    }
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor x = std::exchange(input_, {});
    const Tensor y = std::exchange(output_, {});
    const float* beta = open_gradient(context, *dx[0], x.shape());
    check(cudnnLRNCrossChannelBackward(context.cudnn(), norm_, mode, &one, context.descriptor(y), y.data(),
                                       context.descriptor(dy), dy.data(), context.descriptor(x), x.data(),
                                       beta, context.descriptor(*dx[0]), dx[0]->data()),
          "cudnnLRNCrossChannelBackward");
  }

 private:
  cudnnLRNDescriptor_t norm_ = nullptr;
  Tensor input_, output_;
};

}  // namespace

std::unique_ptr<Layer> response_norm(std::string name) {
  return std::make_unique<ResponseNorm>(std::move(name));
}

}  // namespace train
