#include "loss.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "check.h"

namespace train {

HostResults::HostResults(std::size_t count) {
  check(cudaMallocHost(reinterpret_cast<void**>(&data_), count * sizeof(float)), "cudaMallocHost");
}

HostResults::~HostResults() {
  cudaFreeHost(data_);
}

Loss::Loss(Context& context, int classes, int most_images)
    : context_(context), classes_(classes), results_(std::size_t(most_images) * classes) {}

// Takes the logits, so that their memory is free on return.
Tensor Loss::softmax(Tensor logits) {  // NOLINT(performance-unnecessary-value-param)
  const auto desc = context_.descriptor(logits.shape());
  Tensor p = context_.memory.tensor(logits.shape());
  check(cudnnSoftmaxForward(context_.cudnn(), CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, &one, desc,
                            logits.data(), &zero, desc, p.data()),
        "cudnnSoftmaxForward");
  return p;
}

Tensor Loss::gradient(Tensor logits, const Tensor& targets, int passes) {
  const Shape shape = logits.shape();
  const Tensor p = softmax(std::move(logits));
  fetch(p);
  Tensor gradient = context_.memory.tensor(shape);
  const float scale = 1.0F / static_cast<float>(std::int64_t{shape.n} * passes);
  const float minus = -scale;
  check(cublasSgeam(context_.cublas(), CUBLAS_OP_N, CUBLAS_OP_N, shape.c, shape.n, &scale, p.data(), shape.c,
                    &minus, targets.data(), shape.c, gradient.data(), shape.c),
        "cublasSgeam");
  return gradient;
}

void Loss::probabilities(Tensor logits) {
  fetch(softmax(std::move(logits)));
}

void Loss::fetch(const Tensor& rows) {
  const std::size_t count = rows.shape().count();
  std::fill_n(results_.data(), count, std::numeric_limits<float>::quiet_NaN());
  check(cudaMemcpyAsync(results_.data(), rows.data(), count * sizeof(float), cudaMemcpyDeviceToHost,
                        context_.compute()),
        "cudaMemcpyAsync to the host");
}

double Loss::value(const std::vector<int>& labels, int images) const {
  double sum = 0;
  for (int i = 0; i < images; ++i) {
    float p = row(i)[labels[i]];
    if (p < FLT_MIN) p = FLT_MIN;
    sum -= std::log(static_cast<double>(p));
  }
  // One spelling of what is not a number, whatever its sign.
  if (std::isnan(sum)) return std::numeric_limits<double>::quiet_NaN();
  return sum / static_cast<double>(images);
}

}  // namespace train
