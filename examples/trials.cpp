#include "trials.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "check.h"

namespace train {
namespace {

// Trials get no more workspace than this, so that the fastest algorithm does not set the need.
constexpr std::size_t workspace_limit = std::size_t{256} << 20;
// Room for every algorithm with every math type.
constexpr int most_results = 32;

template <class Performance>
using Results = std::array<Performance, most_results>;

template <class Performance>
std::size_t largest_workspace(const Results<Performance>& results, int count) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) {
    if (results[i].status != CUDNN_STATUS_SUCCESS || results[i].memory > workspace_limit) continue;
    bytes = std::max(bytes, results[i].memory);
  }
  return bytes;
}

// Results are sorted by time.
template <class Performance>
int fastest(const Results<Performance>& results, int count) {
  for (int i = 0; i < count; ++i) {
    if (results[i].status == CUDNN_STATUS_SUCCESS && results[i].determinism == CUDNN_DETERMINISTIC) {
      return results[i].algo;
    }
  }
  throw Failure(Exit::failed, "no deterministic convolution algorithm works");
}

// Where trials may write: the gradient itself, or memory that lies as it does.
class TrialOutput {
 public:
  TrialOutput(Context& context, Gradient gradient) : data_(gradient.tensor.data()) {
    if (!gradient.accumulates) return;
    const std::size_t floats = gradient.tensor.image_stride() * gradient.tensor.shape().n;
    own_ = context.memory.workspace(floats * sizeof(float));
    data_ = own_->data();
  }
  void* data() const { return data_; }

 private:
  std::shared_ptr<Buffer> own_;
  void* data_;
};

// `estimate` and `search` are cuDNN's look-up without and with execution.
template <class Performance, class Estimate, class Search>
int find(Context& context, std::vector<int> key, Estimate estimate, Search search) {
  const auto known = context.found_algorithms.find(key);
  if (known != context.found_algorithms.end()) return known->second;
  Results<Performance> results{};
  int count = 0;
  check(estimate(&count, results.data()), "cudnnGetConvolutionAlgorithm_v7");
  const std::size_t bytes = largest_workspace(results, count);
  const auto workspace = context.memory.workspace(bytes);
  check(search(&count, results.data(), workspace ? workspace->data() : nullptr, bytes),
        "cudnnFindConvolutionAlgorithmEx");
  return context.found_algorithms[std::move(key)] = fastest(results, count);
}

}  // namespace

std::vector<int> Convolved::key(int direction) const {
  std::vector<int> key = form;
  const auto strides = {x.image_stride(), y.image_stride()};
  key.push_back(direction);
  for (const Shape& shape : {x.shape(), y.shape()}) {
    key.insert(key.end(), {shape.n, shape.c, shape.d, shape.h, shape.w});
  }
  for (const std::size_t stride : strides) key.push_back(static_cast<int>(stride));
  return key;
}

cudnnConvolutionFwdAlgo_t forward_algorithm(Context& context, const Convolved& shape, const float* x,
                                            const float* w, float* y) {
  using Performance = cudnnConvolutionFwdAlgoPerf_t;
  if (!context.algorithms.trials) return context.algorithms.forward;
  const auto x_desc = context.descriptor(shape.x);
  const auto y_desc = context.descriptor(shape.y);
  const int found = find<Performance>(
      context, shape.key(0),
      [&](int* count, Performance* results) {
        return cudnnGetConvolutionForwardAlgorithm_v7(
            context.cudnn(), x_desc, shape.filter, shape.convolution, y_desc, most_results, count, results);
      },
      [&](int* count, Performance* results, void* workspace, std::size_t bytes) {
        return cudnnFindConvolutionForwardAlgorithmEx(context.cudnn(), x_desc, x, shape.filter, w,
                                                      shape.convolution, y_desc, y, most_results, count,
                                                      results, workspace, bytes);
      });
  return static_cast<cudnnConvolutionFwdAlgo_t>(found);
}

cudnnConvolutionBwdDataAlgo_t backward_data_algorithm(Context& context, const Convolved& shape,
                                                      const float* w, const float* dy, Gradient dx) {
  using Performance = cudnnConvolutionBwdDataAlgoPerf_t;
  if (!context.algorithms.trials) return context.algorithms.backward_data;
  const auto x_desc = context.descriptor(shape.x);
  const auto y_desc = context.descriptor(shape.y);
  const int found = find<Performance>(
      context, shape.key(1),
      [&](int* count, Performance* results) {
        return cudnnGetConvolutionBackwardDataAlgorithm_v7(
            context.cudnn(), shape.filter, y_desc, shape.convolution, x_desc, most_results, count, results);
      },
      [&](int* count, Performance* results, void* workspace, std::size_t bytes) {
        const TrialOutput output(context, dx);
        return cudnnFindConvolutionBackwardDataAlgorithmEx(context.cudnn(), shape.filter, w, y_desc, dy,
                                                           shape.convolution, x_desc, output.data(),
                                                           most_results, count, results, workspace, bytes);
      });
  return static_cast<cudnnConvolutionBwdDataAlgo_t>(found);
}

cudnnConvolutionBwdFilterAlgo_t backward_filter_algorithm(Context& context, const Convolved& shape,
                                                          const float* x, const float* dy, Gradient dw) {
  using Performance = cudnnConvolutionBwdFilterAlgoPerf_t;
  if (!context.algorithms.trials) return context.algorithms.backward_filter;
  const auto x_desc = context.descriptor(shape.x);
  const auto y_desc = context.descriptor(shape.y);
  const int found = find<Performance>(
      context, shape.key(2),
      [&](int* count, Performance* results) {
        return cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            context.cudnn(), x_desc, y_desc, shape.convolution, shape.filter, most_results, count, results);
      },
      [&](int* count, Performance* results, void* workspace, std::size_t bytes) {
        const TrialOutput output(context, dw);
        return cudnnFindConvolutionBackwardFilterAlgorithmEx(context.cudnn(), x_desc, x, y_desc, dy,
                                                             shape.convolution, shape.filter, output.data(),
                                                             most_results, count, results, workspace, bytes);
      });
  return static_cast<cudnnConvolutionBwdFilterAlgo_t>(found);
}

}  // namespace train
