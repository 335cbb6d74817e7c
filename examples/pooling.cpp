#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

class Pooling final : public Layer {
 public:
  Pooling(std::string name, cudnnPoolingMode_t mode, Window window)
      : Layer(std::move(name)), mode_(mode), window_(window) {}
  ~Pooling() override {
    if (pooling_ != nullptr) cudnnDestroyPoolingDescriptor(pooling_);
  }

  const char* kind() const override { return whole_map() ? "global_average" : "max_pooling"; }
  Kept kept() const override { return {true, true}; }
  std::optional<Geometry> geometry(Shape in) const override {
    Geometry geometry{window_.sizes(in), window_.strides(in), window_.paddings(in)};
    if (whole_map()) {
      geometry.size = in.d == 0 ? std::vector{in.h, in.w} : std::vector{in.d, in.h, in.w};
      geometry.stride = geometry.size;
    }
    return geometry;
  }
  Shape output(const std::vector<Shape>& inputs) override { return output_shape(inputs[0]); }

  void prepare(Context&, const std::vector<Shape>& inputs, Random&) override {
    check(cudnnCreatePoolingDescriptor(&pooling_), "cudnnCreatePoolingDescriptor");
    describe(inputs[0]);
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    if (whole_map() && x.shape().per_image() != described_) describe(x.shape());
    Tensor y = output_tensor(context, std::move(place), output_shape(x.shape()));
    check(cudnnPoolingForward(context.cudnn(), pooling_, &one, context.descriptor(x), x.data(), &zero,
                              context.descriptor(y), y.data()),
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
    check(cudnnPoolingBackward(context.cudnn(), pooling_, &one, context.descriptor(y), y.data(),
                               context.descriptor(dy), dy.data(), context.descriptor(x), x.data(), beta,
                               context.descriptor(*dx[0]), dx[0]->data()),
          "cudnnPoolingBackward");
  }

 private:
  void describe(Shape in) {
    const Geometry window = *geometry(in);
    check(cudnnSetPoolingNdDescriptor(pooling_, mode_, CUDNN_PROPAGATE_NAN,
                                      static_cast<int>(window.size.size()), window.size.data(),
                                      window.padding.data(), window.stride.data()),
          "cudnnSetPoolingNdDescriptor");
    described_ = in.per_image();
  }
  bool whole_map() const { return window_.size == 0; }
  Shape output_shape(Shape in) const {
    return whole_map() ? Shape{in.n, in.c, 1, 1, in.d == 0 ? 0 : 1} : window_.output(in, in.c);
  }

  cudnnPoolingMode_t mode_;
  Window window_;
  cudnnPoolingDescriptor_t pooling_ = nullptr;
  Shape described_;  // one image of what the descriptor is for
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
