#include "context.h"

#include "check.h"

namespace train {

Handles::Handles() {
  check(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamCreateWithFlags(&copy, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudnnCreate(&cudnn), "cudnnCreate");
  check(cudnnSetStream(cudnn, compute), "cudnnSetStream");
  check(cublasCreate(&cublas), "cublasCreate");
  check(cublasSetStream(cublas, compute), "cublasSetStream");
}

Handles::~Handles() {
  if (cublas != nullptr) cublasDestroy(cublas);
  if (cudnn != nullptr) cudnnDestroy(cudnn);
  if (copy != nullptr) cudaStreamDestroy(copy);
  if (compute != nullptr) cudaStreamDestroy(compute);
}

Context::~Context() {
  for (const auto& [shape, descriptor] : descriptors_) cudnnDestroyTensorDescriptor(descriptor);
}

cudnnTensorDescriptor_t Context::descriptor(Shape shape) {
  cudnnTensorDescriptor_t& descriptor = descriptors_[shape];
  if (descriptor == nullptr) {
    check(cudnnCreateTensorDescriptor(&descriptor), "cudnnCreateTensorDescriptor");
    check(cudnnSetTensor4dDescriptor(descriptor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, shape.n, shape.c,
                                     shape.h, shape.w),
          "cudnnSetTensor4dDescriptor");
  }
  return descriptor;
}

Tensor Context::upload(const float* values, Shape shape) {
  Tensor tensor = memory.tensor(shape);
  check(cudaMemcpyAsync(tensor.data(), values, shape.bytes(), cudaMemcpyHostToDevice, compute()),
        "cudaMemcpyAsync to the device");
  check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
  return tensor;
}

}  // namespace train
