#include "optimizer.h"

#include <cmath>
#include <utility>

#include "check.h"

namespace train {

Sgd::Sgd(Context& context, std::vector<Parameter*> parameters, const OptimizerOptions& options)
    : context_(context), parameters_(std::move(parameters)), options_(options) {
  for (Parameter* parameter : parameters_) {
    const Shape shape = parameter->value.shape();
    parameter->momentum = context_.memory.tensor(shape);
    check(cudaMemsetAsync(parameter->momentum.data(), 0, shape.bytes(), context_.compute()),
          "cudaMemsetAsync");
  }
}

void Sgd::step() {
  const cublasHandle_t cublas = context_.cublas();
  const float descent = -options_.learning_rate;
  for (Parameter* parameter : parameters_) {
    const int count = static_cast<int>(parameter->value.shape().count());
    float* w = parameter->value.data();
    float* v = parameter->momentum.data();
    check(cublasSgeam(cublas, CUBLAS_OP_N, CUBLAS_OP_N, count, 1, &options_.momentum, v, count, &one,
                      parameter->gradient.data(), count, v, count),
          "cublasSgeam");
    check(cublasSaxpy(cublas, count, &options_.weight_decay, w, 1, v, 1), "cublasSaxpy");
    check(cublasSaxpy(cublas, count, &descent, v, 1, w, 1), "cublasSaxpy");
    parameter->gradient.reset();
  }
}

AdamW::AdamW(Context& context, std::vector<Parameter*> parameters, const OptimizerOptions& options)
    : context_(context), parameters_(std::move(parameters)), options_(options) {
  for (Parameter* parameter : parameters_) {
    const Shape shape = parameter->value.shape();
    for (Tensor* moment : {&parameter->momentum, &parameter->second_moment}) {
      *moment = context_.memory.tensor(shape);
      check(cudaMemsetAsync(moment->data(), 0, shape.bytes(), context_.compute()), "cudaMemsetAsync");
    }
  }
  for (const auto& [descriptor, op] :
       {std::pair(&product_, CUDNN_OP_TENSOR_MUL), std::pair(&root_, CUDNN_OP_TENSOR_SQRT)}) {
    check(cudnnCreateOpTensorDescriptor(descriptor), "cudnnCreateOpTensorDescriptor");
    check(cudnnSetOpTensorDescriptor(*descriptor, op, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN),
          "cudnnSetOpTensorDescriptor");
  }
}

AdamW::~AdamW() {
  (void)cudnnDestroyOpTensorDescriptor(product_);
  (void)cudnnDestroyOpTensorDescriptor(root_);
}

void AdamW::step() {
  ++steps_;
  for (Parameter* parameter : parameters_) {
    update(*parameter);
    parameter->gradient.reset();
  }
}

void AdamW::update(Parameter& parameter) {
  const cublasHandle_t cublas = context_.cublas();
  const cudnnTensorDescriptor_t shape = context_.descriptor(parameter.value);
  const int count = static_cast<int>(parameter.value.shape().count());
  float* const w = parameter.value.data();
  float* const m = parameter.momentum.data();
  float* const v = parameter.second_moment.data();
  const float* const g = parameter.gradient.data();
  const auto add = [&](float a, const float* x, float b, const float* y, float* sum) {
    check(cublasSgeam(cublas, CUBLAS_OP_N, CUBLAS_OP_N, count, 1, &a, x, count, &b, y, count, sum, count),
          "cublasSgeam");
  };
  const float b1 = options_.momentum, b2 = options_.second_momentum;
  const auto t = static_cast<float>(steps_);
  add(b1, m, 1 - b1, g, m);
  const float rest = 1 - b2;
  check(cudnnOpTensor(context_.cudnn(), product_, &rest, shape, g, &one, shape, g, &b2, shape, v),
        "cudnnOpTensor");
  const Tensor divisor = context_.memory.tensor(parameter.value.shape());
  const float unbiased = 1 / (1 - std::pow(b2, t));
  check(cudnnSetTensor(context_.cudnn(), shape, divisor.data(), &options_.epsilon), "cudnnSetTensor");
  check(cudnnOpTensor(context_.cudnn(), root_, &unbiased, shape, v, &one, shape, v, &one, shape,
                      divisor.data()),
        "cudnnOpTensor");
  const Tensor change = context_.memory.tensor(parameter.value.shape());
  check(cublasScopy(cublas, count, m, 1, change.data(), 1), "cublasScopy");
  check(cublasStbsv(cublas, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, CUBLAS_DIAG_NON_UNIT, count, 0,
                    divisor.data(), 1, change.data(), 1),
        "cublasStbsv");
  add(1 - options_.learning_rate * options_.weight_decay, w, -options_.learning_rate / (1 - std::pow(b1, t)),
      change.data(), w);
}

std::unique_ptr<Optimizer> make_optimizer(Context& context, const std::vector<Parameter*>& parameters,
                                          const OptimizerOptions& options) {
  if (options.adamw) return std::make_unique<AdamW>(context, parameters, options);
  return std::make_unique<Sgd>(context, parameters, options);
}

}  // namespace train
