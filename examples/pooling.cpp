#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class Pooling final : public Layer {
 public:
  Pooling(std::string name, cudnnPoolingMode_t mode, Window window)
      : Layer(std::move(name)), mode_(mode), window_(window) {
    check(cudnnCreatePoolingDescriptor(&pooling_), "cudnnCreatePoolingDescriptor");
  }
  ~Pooling() override { cudnnDestroyPoolingDescriptor(pooling_); }

  Shape build(Context&, const std::vector<Shape>& inputs, Random&) override {
    const Shape in = inputs[0];
    if (window_.size == 0) window_ = {in.h, in.h, 0};  // the whole map, which is square
    check(cudnnSetPooling2dDescriptor(pooling_, mode_, CUDNN_PROPAGATE_NAN, window_.size, window_.size,
                                      window_.padding, window_.padding, window_.stride, window_.stride),
          "cudnnSetPooling2dDescriptor");
    return output_shape(in);
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, bool training) override {
    Tensor& x = inputs[0];
    Tensor y = context.memory.tensor(output_shape(x.shape()));
    check(cudnnPoolingForward(context.cudnn(), pooling_, &one, context.descriptor(x.shape()), x.data(), &zero,
                              context.descriptor(y.shape()), y.data()),
          "cudnnPoolingForward");
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
    const auto x_desc = context.descriptor(x.shape());
    const auto y_desc = context.descriptor(y.shape());
    check(cudnnPoolingBackward(context.cudnn(), pooling_, &one, y_desc, y.data(), y_desc, dy.data(), x_desc,
                               x.data(), beta, x_desc, dx[0]->data()),
          "cudnnPoolingBackward");
  }

 private:
  Shape output_shape(Shape in) const { return {in.n, in.c, window_.output(in.h), window_.output(in.w)}; }

  cudnnPoolingMode_t mode_;
  Window window_;
  cudnnPoolingDescriptor_t pooling_ = nullptr;
  Tensor input_, output_;
};

}  // namespace

std::unique_ptr<Layer> max_pooling(std::string name, Window window) {
  return std::make_unique<Pooling>(std::move(name), CUDNN_POOLING_MAX_DETERMINISTIC, window);
}

std::unique_ptr<Layer> global_average(std::string name) {
  return std::make_unique<Pooling>(std::move(name), CUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING,
                                   Window{0, 0, 0});
}

}  // namespace train
