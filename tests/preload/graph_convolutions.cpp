// A library for LD_PRELOAD ahead of pooch: the program's legacy convolutions become operation graphs of the
// backend API, each done by the engine of the algorithm's number, so that the bits are the legacy call's. As
// in PyTorch, plans are cached and every execution has a variant pack of its own.
//   GRAPH_PLANS=fresh   a plan lives for one execution
//   GRAPH_TRIALS=1      every engine is tried with one pack, as under torch.backends.cudnn.benchmark, before
//   the
//                       first execution of a convolution
#include <cudnn.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <tuple>

#include "tests/cudnn_graph.h"

namespace {

using namespace cudnn_graph;

struct TensorText {
  cudnnDataType_t type;
  Numbers dims, strides;
  auto operator<=>(const TensorText&) const = default;
};

TensorText text_of(cudnnTensorDescriptor_t tensor) {
  int rank = 0, dims[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
  cudnnDataType_t type;
  check(cudnnGetTensorNdDescriptor(tensor, CUDNN_DIM_MAX, &type, &rank, dims, strides), "a tensor");
  return {type, {dims, dims + rank}, {strides, strides + rank}};
}

TensorText text_of(cudnnFilterDescriptor_t filter) {
  int rank = 0, dims[CUDNN_DIM_MAX];
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  check(cudnnGetFilterNdDescriptor(filter, CUDNN_DIM_MAX, &type, &format, &rank, dims), "a filter");
  const Numbers sizes(dims, dims + rank);
  return {type, sizes, packed_strides(sizes)};
}

struct Problem {
  int direction;  // 0 forward, 1 data, 2 filter
  std::int64_t engine;
  float alpha, beta;
  TensorText x, w, y;
  Numbers padding, stride, dilation;
  auto operator<=>(const Problem&) const = default;
};

Problem problem_of(int direction, int algorithm, const void* alpha, const void* beta,
                   cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t y,
                   cudnnConvolutionDescriptor_t convolution) {
  int rank = 0, padding[6], stride[6], dilation[6];
  cudnnConvolutionMode_t mode;
  cudnnDataType_t type;
  check(cudnnGetConvolutionNdDescriptor(convolution, 6, &rank, padding, stride, dilation, &mode, &type),
        "a convolution");
  return {direction,
          algorithm,
          *static_cast<const float*>(alpha),
          *static_cast<const float*>(beta),
          text_of(x),
          text_of(w),
          text_of(y),
          {padding, padding + rank},
          {stride, stride + rank},
          {dilation, dilation + rank}};
}

Descriptor graph_for(const Problem& p) {
  const Direction& direction = p.direction == 0   ? forward
                               : p.direction == 1 ? backward_data
                                                  : backward_filter;
  const auto described = [](std::int64_t uid, const TensorText& t) {
    return tensor(uid, t.dims, t.strides, t.type);
  };
  return graph_of(operation(direction, described('x', p.x), described('w', p.w), described('y', p.y),
                            convolution(p.padding, p.stride, p.dilation), p.alpha, p.beta));
}

Descriptor make_plan(const Problem& p) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.part(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_for(p));
  engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, p.engine).finalize();
  Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  return plan_of(configuration.part(CUDNN_ATTR_ENGINECFG_ENGINE, engine).finalize());
}

// Only those that the program's workspace is large enough for.
void try_engines(cudnnHandle_t handle, const Problem& p, const Descriptor& pack, std::size_t workspace) {
  for (const Descriptor& configuration : configurations(graph_for(p))) {
    const Descriptor plan = plan_of(configuration);
    if (static_cast<std::size_t>(workspace_of(plan)) > workspace) continue;
    for (int time = 0; time < 2; ++time)
      check(cudnnBackendExecute(handle, plan.raw(), pack.raw()), "cudnnBackendExecute");
  }
}

bool asked_for(const char* variable, const char* value) {
  const char* const text = std::getenv(variable);
  return text != nullptr && std::string(text) == value;
}

cudnnStatus_t run(cudnnHandle_t handle, const Problem& p, const void* x, const void* w, const void* y,
                  void* workspace, std::size_t workspace_bytes) {
  static std::mutex mutex;
  static auto* const plans = new std::map<Problem, Descriptor>;  // outlives the program's own exit handlers
  const auto pack = [&] {
    return pack_of({'x', 'y', 'w'}, {const_cast<void*>(x), const_cast<void*>(y), const_cast<void*>(w)},
                   workspace);
  };
  try {
    const std::lock_guard lock(mutex);
    auto found = plans->find(p);
    if (found == plans->end()) {
      // What trials leave in a result that is blended with would be wrong.
      if (asked_for("GRAPH_TRIALS", "1") && p.beta == 0) try_engines(handle, p, pack(), workspace_bytes);
      found = plans->emplace(p, make_plan(p)).first;
    } else if (asked_for("GRAPH_PLANS", "fresh")) {
      found->second = make_plan(p);
    }
    const cudnnStatus_t status = cudnnBackendExecute(handle, found->second.raw(), pack().raw());
    if (asked_for("GRAPH_PLANS", "fresh"))
      found->second = Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph_convolutions: %s\n", error.what());
    return CUDNN_STATUS_INTERNAL_ERROR;
  }
}

}  // namespace

#define SHIM extern "C" __attribute__((visibility("default")))

SHIM cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                           const cudnnTensorDescriptor_t x, const void* x_data,
                                           const cudnnFilterDescriptor_t w, const void* w_data,
                                           const cudnnConvolutionDescriptor_t convolution,
                                           cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                           std::size_t bytes, const void* beta,
                                           const cudnnTensorDescriptor_t y, void* y_data) {
  return run(handle, problem_of(0, algorithm, alpha, beta, x, w, y, convolution), x_data, w_data, y_data,
             workspace, bytes);
}

SHIM cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void* alpha,
                                                const cudnnFilterDescriptor_t w, const void* w_data,
                                                const cudnnTensorDescriptor_t dy, const void* dy_data,
                                                const cudnnConvolutionDescriptor_t convolution,
                                                cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace,
                                                std::size_t bytes, const void* beta,
                                                const cudnnTensorDescriptor_t dx, void* dx_data) {
  return run(handle, problem_of(1, algorithm, alpha, beta, dx, w, dy, convolution), dx_data, w_data, dy_data,
             workspace, bytes);
}

SHIM cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void* alpha,
                                                  const cudnnTensorDescriptor_t x, const void* x_data,
                                                  const cudnnTensorDescriptor_t dy, const void* dy_data,
                                                  const cudnnConvolutionDescriptor_t convolution,
                                                  cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace,
                                                  std::size_t bytes, const void* beta,
                                                  const cudnnFilterDescriptor_t dw, void* dw_data) {
  return run(handle, problem_of(2, algorithm, alpha, beta, x, dw, dy, convolution), x_data, dw_data, dy_data,
             workspace, bytes);
}
