// The sections of the program `cudnn_facts`, and cuDNN's objects for them.
#pragma once

#include <cudnn.h>

#include <utility>

#include "tests/cudnn_graph.h"
#include "tests/gpu/facts.h"

namespace pooch::facts {

using cudnn_graph::Numbers;

class Handle {
 public:
  explicit Handle(const Stream& stream) {
    cudnn_graph::check(cudnnCreate(&handle_), "cudnnCreate");
    cudnn_graph::check(cudnnSetStream(handle_, stream), "cudnnSetStream");
  }
  ~Handle() { destroy(); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  operator cudnnHandle_t() const { return handle_; }
  void destroy() {
    if (handle_ != nullptr) cudnnDestroy(std::exchange(handle_, nullptr));
  }

 private:
  cudnnHandle_t handle_ = nullptr;
};

class Tensor {
 public:
  explicit Tensor(const Numbers& dims)
      : elements_(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3])),
        memory_(bytes()),
        host_(bytes()) {}
  void* device() const { return reinterpret_cast<void*>(static_cast<CUdeviceptr>(memory_)); }
  void fill(const Stream& stream) const {
    for (std::size_t i = 0; i < elements_; ++i)
      values()[i] = static_cast<float>(i * 2654435761U % (1U << 24)) / (1U << 24) - 0.5f;
    must_call(cuMemcpyHtoDAsync, memory_, host_.get(), bytes(), stream);
  }
  void clear(const Stream& stream) const { must_call(cuMemsetD32Async, memory_, 0U, elements_, stream); }
  std::vector<float> read(const Stream& stream) const {
    must_call(cuMemcpyDtoHAsync, host_.get(), memory_, bytes(), stream);
    stream.finish();
    return {values(), values() + elements_};
  }

 private:
  std::size_t bytes() const { return elements_ * sizeof(float); }
  float* values() const { return static_cast<float*>(host_.get()); }
  std::size_t elements_;
  DeviceMemory memory_;
  HostMemory host_;
};

// cudnn_facts.cpp
void backend_plan_section(Bench&, Json&);
// cudnn_batch_norm.cpp
void batch_norm_saved_section(Bench&, Json&);

}  // namespace pooch::facts
