#include "optimizer.h"

#include <utility>

#include "check.h"

namespace train {

Sgd::Sgd(Context& context, std::vector<Parameter*> parameters, const SgdOptions& options)
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

}  // namespace train
