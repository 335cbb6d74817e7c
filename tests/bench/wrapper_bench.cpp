// wrapper_bench BATCHES CALLS: the processor time of a cuDNN call with 8 operands, all of them large enough
// to be pooch's and all of them resident. Prints nanoseconds per call, one number for each batch of calls.
#include <cuda.h>
#include <cudnn.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::exit(1);
}

// Processor time, so that other work on the machine does not count.
double thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

void* allocate(size_t bytes) {
  CUdeviceptr memory = 0;
  expect(cuMemAlloc_v2(&memory, bytes) == CUDA_SUCCESS, "cuMemAlloc_v2");
  return reinterpret_cast<void*>(memory);
}

cudnnTensorDescriptor_t describe(int n, int c, int h, int w) {
  cudnnTensorDescriptor_t tensor;
  cudnnCreateTensorDescriptor(&tensor);
  cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w);
  return tensor;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  CUcontext context;
  expect(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
             cuCtxSetCurrent(context) == CUDA_SUCCESS,
         "the driver starts");
  cudnnHandle_t handle;
  cudnnCreate(&handle);
  const cudnnTensorDescriptor_t images = describe(4, 64, 56, 56), channels = describe(1, 64, 1, 1);
  const size_t large = size_t{4} * 64 * 56 * 56 * sizeof(float), small = size_t{2} << 20;
  // As a program makes them: one layer after the other, and again.
  constexpr int layers = 25;
  struct Layer {
    void *x, *dy, *dx;
    void* parameters[5];  // scale, its gradient, the bias's gradient, mean, variance
  };
  std::vector<Layer> network(layers);
  for (Layer& layer : network) {
    layer.x = allocate(large), layer.dy = allocate(large), layer.dx = allocate(large);
    for (void*& one : layer.parameters) one = allocate(small);
  }
  const float one = 1, zero = 0;
  int next = 0;
  const auto call = [&] {
    const Layer& l = network[next];
    next = (next + 1) % layers;
    return cudnnBatchNormalizationBackward(
        handle, CUDNN_BATCHNORM_SPATIAL, &one, &zero, &one, &zero, images, l.x, images, l.dy, images, l.dx,
        channels, l.parameters[0], l.parameters[1], l.parameters[2], 1e-5, l.parameters[3], l.parameters[4]);
  };
  const int batches = std::atoi(arguments[1]), calls = std::atoi(arguments[2]);
  constexpr int first = 20;  // warm up
  for (int batch = -first; batch < batches; ++batch) {
    int failed = 0;
    const double begin = thread_ns();
    for (int i = 0; i < calls; ++i) failed += call() != CUDNN_STATUS_SUCCESS;
    const double took = thread_ns() - begin;
    expect(failed == 0, "cudnnBatchNormalizationBackward");
    if (batch >= 0) std::printf("%.1f\n", took / calls);
  }
  return 0;
}
