#include "context.h"

#include <vector>

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
  for (const auto& [layout, descriptor] : descriptors_) cudnnDestroyTensorDescriptor(descriptor);
}

cudnnTensorDescriptor_t Context::descriptor(Shape shape, std::size_t image_stride) {
  cudnnTensorDescriptor_t& descriptor = descriptors_[{shape, image_stride}];
  if (descriptor != nullptr) return descriptor;
  check(cudnnCreateTensorDescriptor(&descriptor), "cudnnCreateTensorDescriptor");
  std::vector<int> sizes{shape.n, shape.c};
  if (shape.d > 0) sizes.push_back(shape.d);
  sizes.insert(sizes.end(), {shape.h, shape.w});
  std::vector<int> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i > 1; --i) strides[i - 1] = strides[i] * sizes[i];
  strides[0] = static_cast<int>(image_stride);
  check(cudnnSetTensorNdDescriptor(descriptor, CUDNN_DATA_FLOAT, static_cast<int>(sizes.size()), sizes.data(),
                                   strides.data()),
        "cudnnSetTensorNdDescriptor");
  return descriptor;
}

Tensor Context::upload(const float* values, Shape shape) {
  Tensor tensor = memory.tensor(shape);
  check(cudaMemcpyAsync(tensor.data(), values, shape.bytes(), cudaMemcpyHostToDevice, compute()),
        "cudaMemcpyAsync to the device");
  check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
  return tensor;
}

std::vector<float> Context::download(const Tensor& tensor) {
  std::vector<float> values(tensor.shape().count());
  check(cudaMemcpyAsync(values.data(), tensor.data(), tensor.shape().bytes(), cudaMemcpyDeviceToHost,
                        compute()),
        "cudaMemcpyAsync to the host");
  check(cudaStreamSynchronize(compute()), "cudaStreamSynchronize");
  return values;
}

}  // namespace train
