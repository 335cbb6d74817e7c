// The proof that a kept call computes its bits again (see again()), and shorthands for programs.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/interpose/replay_session.h"

#define CUDA_OK(call) ASSERT_EQ(static_cast<int>(call), 0)

namespace replay_test {

// Device memory with reproducible values in (-1, 1), gone with the test.
class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* floats(std::size_t count);
  double* doubles(std::size_t count);
  void* bytes(std::size_t count);  // nullptr for none

 private:
  std::vector<void*> all_;
  std::uint32_t seed_ = 0;
};

// Runs `program`, which makes one call that is kept, and then makes the call again twice, in other streams:
//   - `program` destroys descriptors and handles, and its factors, before it returns;
//   - every operand lies somewhere else each time; what a call must not read holds garbage, and so do all the
//     places where the operands lay before.
// Each time all operands must have the bits that the program's call left. Those at `left_alone` (running
// statistics) must have the bits from before it.
void again(const char* function, const std::function<void()>& program,
           const std::vector<const void*>& left_alone = {});
// Runs `program`, whose last call must have no recipe.
void never_again(const char* function, const std::function<void()>& program);

// --- descriptors that live as long as a program
template <class Descriptor, cudnnStatus_t (*Create)(Descriptor*), cudnnStatus_t (*Destroy)(Descriptor)>
struct Owned {
  Descriptor it = nullptr;
  Owned() { EXPECT_EQ(Create(&it), CUDNN_STATUS_SUCCESS); }
  ~Owned() { EXPECT_EQ(Destroy(it), CUDNN_STATUS_SUCCESS); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Descriptor() const { return it; }
};
using Dnn = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
using Convolution =
    Owned<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using Pooling = Owned<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;
using Activation =
    Owned<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;
using OpTensor =
    Owned<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor, cudnnDestroyOpTensorDescriptor>;
using ReduceTensor = Owned<cudnnReduceTensorDescriptor_t, cudnnCreateReduceTensorDescriptor,
                           cudnnDestroyReduceTensorDescriptor>;
using Lrn = Owned<cudnnLRNDescriptor_t, cudnnCreateLRNDescriptor, cudnnDestroyLRNDescriptor>;

struct Tensor : Owned<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor> {
  // Packed in this order.
  explicit Tensor(const std::vector<int>& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
  Tensor(const std::vector<int>& sizes, const std::vector<int>& strides,
         cudnnDataType_t type = CUDNN_DATA_FLOAT);
};
struct Filter : Owned<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor> {
  explicit Filter(const std::vector<int>& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT);
};

// A factor that the program overwrites when the call has returned.
template <class Real>
struct Factor {
  Real value;
  explicit Factor(Real v) : value(v) {}
  ~Factor() { *static_cast<volatile Real*>(&value) = Real(77); }
  const Real* operator&() const { return &value; }  // NOLINT: reads like a factor in a program
};

}  // namespace replay_test
