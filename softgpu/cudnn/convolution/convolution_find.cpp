// cudnnFindConvolution*Algorithm(Ex): every algorithm runs once between two events. The Ex forms run on the
// program's operands and workspace and so write its output; the plain ones on memory of their own.
#include <algorithm>
#include <array>
#include <vector>

#include "softgpu/cudnn/convolution/convolution_check.h"
#include "softgpu/cudnn/descriptors/launch.h"

namespace softgpu::cudnn {
namespace {

struct DeviceMemory {
  void* data = nullptr;

  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() { cudaFree(data); }
  bool allocate(std::size_t bytes) { return bytes == 0 || cudaMalloc(&data, bytes) == cudaSuccess; }
};

class Stopwatch {
 public:
  Stopwatch() : ready_(cudaEventCreate(&begin_) == cudaSuccess && cudaEventCreate(&end_) == cudaSuccess) {}
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;
  ~Stopwatch() {
    if (begin_) cudaEventDestroy(begin_);
    if (end_) cudaEventDestroy(end_);
  }
  // Milliseconds that `work` takes on the stream; below 0 where that cannot be found out.
  template <class Work>
  float time(cudaStream_t stream, Work work) {
    float milliseconds = -1;
    if (!ready_ || cudaEventRecord(begin_, stream) != cudaSuccess) return -1;
    work();
    if (cudaEventRecord(end_, stream) != cudaSuccess || cudaEventSynchronize(end_) != cudaSuccess ||
        cudaEventElapsedTime(&milliseconds, begin_, end_) != cudaSuccess) {
      return -1;
    }
    return milliseconds;
  }

 private:
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
  bool ready_;
};

// Two inputs and the output, in the order of the direction's kernel.
using Operands = std::array<std::uint64_t, 3>;

struct Search {
  const char* function;
  cudnnHandle_t handle;
  ConvDirection direction;
  ConvShape shape;
  Layout x, w, y;
  Operands operands;
  void* workspace;  // the program's
  std::size_t workspace_bytes;
  bool own_workspace;  // allocate what each algorithm asks for instead
};

struct Trial {
  int algorithm;
  cudnnStatus_t status;
  float time;
  ConvAlgorithm properties;
};

cudnnStatus_t run(const Search& s, const ConvArgs& args, void* workspace) {
  const Pointers<4> pointers{s.operands[0], s.operands[1], s.operands[2], address(workspace)};
  switch (s.direction) {
    case ConvDirection::forward:
      return launch<ConvForward>(s.function, s.handle, element_count(args.y), pointers, args);
    case ConvDirection::backward_data:
      return launch<ConvBackwardData>(s.function, s.handle, element_count(args.x), pointers, args);
    case ConvDirection::backward_filter:
      break;
  }
  return launch<ConvBackwardFilter>(s.function, s.handle, element_count(args.y), pointers, args);
}

Trial attempt(const Search& s, int algorithm, Stopwatch& watch) {
  Trial trial{algorithm, CUDNN_STATUS_NOT_SUPPORTED, -1, describe_algorithm(s.direction, algorithm, s.shape)};
  if (!trial.properties.supported) return trial;
  const std::size_t needed = trial.properties.workspace;
  DeviceMemory own;
  if (s.own_workspace ? !own.allocate(needed) : needed > s.workspace_bytes || (needed > 0 && !s.workspace)) {
    cudaGetLastError();  // a trial that found no memory is no error of the program's
    trial.status = CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return trial;
  }
  const ConvArgs args{s.shape, s.x, s.w, s.y, CUDNN_DATA_FLOAT, needed, trial.properties.flops, 1.0F, 0.0F};
  trial.time = watch.time(s.handle->stream,
                          [&] { trial.status = run(s, args, s.own_workspace ? own.data : s.workspace); });
  if (trial.status == CUDNN_STATUS_SUCCESS && trial.time < 0) trial.status = CUDNN_STATUS_EXECUTION_FAILED;
  return trial;
}

// The fastest first, then the least memory; what failed last.
template <class Performance>
cudnnStatus_t search(const Search& s, int requested, int* returned, Performance* results) {
  Stopwatch watch;
  std::vector<Trial> trials;
  for (int i = 0; i < algorithm_count(s.direction); ++i) trials.push_back(attempt(s, i, watch));
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    const bool a_works = a.status == CUDNN_STATUS_SUCCESS;
    const bool b_works = b.status == CUDNN_STATUS_SUCCESS;
    if (a_works != b_works) return a_works;
    if (a.time != b.time) return a.time < b.time;
    return a.properties.workspace < b.properties.workspace;
  });
  *returned = std::min(requested, static_cast<int>(trials.size()));
  for (int i = 0; i < *returned; ++i) {
    const Trial& from = trials[static_cast<std::size_t>(i)];
    Performance& to = results[i];
    to = {};
    to.algo = static_cast<decltype(to.algo)>(from.algorithm);
    to.status = from.status;
    to.time = from.time;
    to.memory = from.properties.workspace;
    to.determinism = from.properties.deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC;
    to.mathType = CUDNN_DEFAULT_MATH;
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t prepare(Search& s, const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                      const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y, int requested,
                      const int* returned, const void* results) {
  if (any_null(s.handle, x, y, returned, results)) return null_argument(s.function);
  if (requested < 1) return fail(s.function, CUDNN_STATUS_BAD_PARAM, "fewer than one result is requested");
  s.x = x->layout;
  s.y = y->layout;
  if (w) s.w = filter_layout(*w);
  return check_convolution(s.function, x, w, conv, y, s.shape);
}

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

// For the forms without operands: memory filled with zeros for the time of the search.
template <class Performance>
cudnnStatus_t search_alone(const char* function, cudnnHandle_t handle, ConvDirection direction,
                           const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                           const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y, int requested,
                           int* returned, Performance* results) {
  Search s{function, handle, direction, {}, {}, {}, {}, {}, nullptr, 0, true};
  if (auto status = prepare(s, x, w, conv, y, requested, returned, results); status != CUDNN_STATUS_SUCCESS) {
    return status;
  }
  const std::size_t x_bytes = bytes_of(element_span(s.x));
  const std::size_t w_bytes = bytes_of(filter_elements(s.shape));
  const std::size_t y_bytes = bytes_of(element_span(s.y));
  DeviceMemory x_own;
  DeviceMemory w_own;
  DeviceMemory y_own;
  if (!x_own.allocate(x_bytes) || !w_own.allocate(w_bytes) || !y_own.allocate(y_bytes)) {
    cudaGetLastError();
    return fail(function, CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED,
                "no memory for the operands of a trial");
  }
  cudaMemsetAsync(x_own.data, 0, x_bytes, handle->stream);
  cudaMemsetAsync(w_own.data, 0, w_bytes, handle->stream);
  cudaMemsetAsync(y_own.data, 0, y_bytes, handle->stream);
  const std::uint64_t x_at = address(x_own.data);
  const std::uint64_t w_at = address(w_own.data);
  const std::uint64_t y_at = address(y_own.data);
  switch (direction) {
    case ConvDirection::forward:
      s.operands = {x_at, w_at, y_at};
      break;
    case ConvDirection::backward_data:
      s.operands = {w_at, y_at, x_at};
      break;
    case ConvDirection::backward_filter:
      s.operands = {x_at, y_at, w_at};
      break;
  }
  return search(s, requested, returned, results);
}

template <class Performance>
cudnnStatus_t search_with(Search s, const cudnnTensorStruct* x, const cudnnFilterStruct* w,
                          const cudnnConvolutionStruct* conv, const cudnnTensorStruct* y, int requested,
                          int* returned, Performance* results) {
  if (std::find(s.operands.begin(), s.operands.end(), 0U) != s.operands.end())
    return null_argument(s.function);
  auto status = prepare(s, x, w, conv, y, requested, returned, results);
  return status == CUDNN_STATUS_SUCCESS ? search(s, requested, returned, results) : status;
}

}  // namespace
}  // namespace softgpu::cudnn

using namespace softgpu::cudnn;

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionForwardAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t y, const int requested,
    int* returned, cudnnConvolutionFwdAlgoPerf_t* results) {
  return search_alone(__func__, handle, ConvDirection::forward, x, w, conv, y, requested, returned, results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithm(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnTensorDescriptor_t dx, const int requested,
    int* returned, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  return search_alone(__func__, handle, ConvDirection::backward_data, dx, w, conv, dy, requested, returned,
                      results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithm(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnTensorDescriptor_t dy,
    const cudnnConvolutionDescriptor_t conv, const cudnnFilterDescriptor_t dw, const int requested,
    int* returned, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  return search_alone(__func__, handle, ConvDirection::backward_filter, x, dw, conv, dy, requested, returned,
                      results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnFilterDescriptor_t w_desc, const void* w, const cudnnConvolutionDescriptor_t conv,
    const cudnnTensorDescriptor_t y_desc, void* y, const int requested, int* returned,
    cudnnConvolutionFwdAlgoPerf_t* results, void* workspace, std::size_t workspace_bytes) {
  const Search s{__func__,
                 handle,
                 ConvDirection::forward,
                 {},
                 {},
                 {},
                 {},
                 {address(x), address(w), address(y)},
                 workspace,
                 workspace_bytes,
                 false};
  return search_with(s, x_desc, w_desc, conv, y_desc, requested, returned, results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
    cudnnHandle_t handle, const cudnnFilterDescriptor_t w_desc, const void* w,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnConvolutionDescriptor_t conv,
    const cudnnTensorDescriptor_t dx_desc, void* dx, const int requested, int* returned,
    cudnnConvolutionBwdDataAlgoPerf_t* results, void* workspace, std::size_t workspace_bytes) {
  const Search s{__func__, handle, ConvDirection::backward_data,           {},        {},
                 {},       {},     {address(w), address(dy), address(dx)}, workspace, workspace_bytes,
                 false};
  return search_with(s, dx_desc, w_desc, conv, dy_desc, requested, returned, results);
}

SOFTGPU_CUDNN cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
    cudnnHandle_t handle, const cudnnTensorDescriptor_t x_desc, const void* x,
    const cudnnTensorDescriptor_t dy_desc, const void* dy, const cudnnConvolutionDescriptor_t conv,
    const cudnnFilterDescriptor_t dw_desc, void* dw, const int requested, int* returned,
    cudnnConvolutionBwdFilterAlgoPerf_t* results, void* workspace, std::size_t workspace_bytes) {
  const Search s{__func__, handle, ConvDirection::backward_filter,         {},        {},
                 {},       {},     {address(x), address(dy), address(dw)}, workspace, workspace_bytes,
                 false};
  return search_with(s, x_desc, dw_desc, conv, dy_desc, requested, returned, results);
}
