#include <cmath>
#include <stdexcept>
#include <utility>

#include "check.h"
#include "layers.h"

namespace train {
namespace {

// y = x W^T + b over the flattened image. cuBLAS is column-major: a row-major (n, k) matrix is its (k, n)
// one.
class Linear final : public Layer {
 public:
  Linear(std::string name, int features) : Layer(std::move(name)), features_(features) {}

  const char* kind() const override { return "linear"; }
  Kept kept() const override { return {true, false}; }
  Shape output(const std::vector<Shape>& inputs) override { return {inputs[0].n, features_, 1, 1}; }

  void prepare(Context& context, const std::vector<Shape>& inputs, Random& random) override {
    inputs_ = static_cast<int>(inputs[0].image_count());
    const Shape weights{features_, inputs_, 1, 1};
    const float deviation = 1.0F / std::sqrt(static_cast<float>(inputs_));
    const std::vector<float> values = random.normals(weights.count(), deviation);
    weights_ = {name() + ".weight", context.upload(values.data(), weights), {}, {}};
    const Shape bias{1, features_, 1, 1};
    bias_ = {name() + ".bias", context.upload(std::vector<float>(bias.count()).data(), bias), {}, {}};
  }

  Tensor forward(Context& context, std::vector<Tensor> inputs, Tensor place, bool training) override {
    Tensor& x = inputs[0];
    const int n = x.shape().n;
    Tensor y = output_tensor(context, std::move(place), {n, features_, 1, 1});
    if (!x.packed() || !y.packed()) throw std::logic_error(name() + ": cuBLAS wants whole tensors");
    check(cublasSgemm(context.cublas(), CUBLAS_OP_T, CUBLAS_OP_N, features_, n, inputs_, &one,
                      weights_.value.data(), inputs_, x.data(), inputs_, &zero, y.data(), features_),
          "cublasSgemm");
    check(cudnnAddTensor(context.cudnn(), &one, context.descriptor(bias_.value.shape()), bias_.value.data(),
                         &one, context.descriptor(y.shape()), y.data()),
          "cudnnAddTensor");
    if (training) input_ = std::move(x);
    return y;
  }

  void backward(Context& context, Tensor dy, const std::vector<GradientSlot>& dx) override {
    const Tensor x = std::exchange(input_, {});
    const int n = x.shape().n;
    const float* bias_beta = open_gradient(context, bias_.gradient, bias_.value.shape());
    check(cudnnConvolutionBackwardBias(context.cudnn(), &one, context.descriptor(dy.shape()), dy.data(),
                                       bias_beta, context.descriptor(bias_.value.shape()),
                                       bias_.gradient.data()),
          "cudnnConvolutionBackwardBias");
    const float* weights_beta = open_gradient(context, weights_.gradient, weights_.value.shape());
    check(cublasSgemm(context.cublas(), CUBLAS_OP_N, CUBLAS_OP_T, inputs_, features_, n, &one, x.data(),
                      inputs_, dy.data(), features_, weights_beta, weights_.gradient.data(), inputs_),
          "cublasSgemm");
    const float* beta = open_gradient(context, *dx[0], x.shape());
    check(cublasSgemm(context.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, inputs_, n, features_, &one,
                      weights_.value.data(), inputs_, dy.data(), features_, beta, dx[0]->data(), inputs_),
          "cublasSgemm");
  }

  std::vector<Parameter*> parameters() override { return {&weights_, &bias_}; }

 private:
  int features_;
  int inputs_ = 0;
  Parameter weights_, bias_;
  Tensor input_;
};

}  // namespace

std::unique_ptr<Layer> linear(std::string name, int features) {
  return std::make_unique<Linear>(std::move(name), features);
}

}  // namespace train
