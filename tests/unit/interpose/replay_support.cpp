#include "tests/unit/interpose/replay_support.h"

#include <cuda.h>

#include <algorithm>
#include <cstdlib>

namespace replay_test {
namespace {

constexpr int old_garbage = 0xA7, new_garbage = 0x5C;

// Spread so that a pointer that did not move along meets garbage, or nothing at all.
struct Places {
  std::vector<pooch::Address> at;
  std::vector<void*> allocations;

  explicit Places(const KeptOp& op, std::size_t distance) {
    for (std::size_t i = 0; i < op.accesses.size(); ++i) {
      const pooch::Access& access = op.accesses[i];
      void* memory = nullptr;
      EXPECT_EQ(cudaMalloc(&memory, access.bytes + distance), cudaSuccess);
      allocations.push_back(memory);
      auto* const place = static_cast<unsigned char*>(memory) + distance;
      at.push_back(pooch::Address{reinterpret_cast<std::uintptr_t>(place)});
      const bool is_read =
          access.effect != pooch::Effect::overwrite && access.effect != pooch::Effect::scratch;
      if (is_read) {
        EXPECT_EQ(cudaMemcpy(place, op.before[i].data(), access.bytes, cudaMemcpyHostToDevice), cudaSuccess);
      } else {
        EXPECT_EQ(cudaMemset(place, new_garbage, access.bytes), cudaSuccess);
      }
    }
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  }
  ~Places() {
    for (void* const memory : allocations) EXPECT_EQ(cudaFree(memory), cudaSuccess);
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;
};

Bytes read(pooch::Address from, std::uint64_t bytes) {
  Bytes host(bytes);
  EXPECT_EQ(cudaMemcpy(host.data(), reinterpret_cast<void*>(raw(from)), bytes, cudaMemcpyDeviceToHost),
            cudaSuccess);
  return host;
}

void fill(const KeptOp& op, int garbage) {
  for (const pooch::Access& access : op.accesses)
    EXPECT_EQ(cudaMemset(reinterpret_cast<void*>(raw(access.address)), garbage, access.bytes), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
}

bool is_in(const std::vector<const void*>& list, pooch::Address address) {
  return std::any_of(list.begin(), list.end(),
                     [&](const void* one) { return reinterpret_cast<std::uintptr_t>(one) == raw(address); });
}

void check(const KeptOp& op, const Places& places, const std::vector<const void*>& left_alone) {
  bool wrote = false;
  for (std::size_t i = 0; i < op.accesses.size(); ++i) {
    const pooch::Access& access = op.accesses[i];
    const std::string which = op.function + ", access " + std::to_string(i);
    if (access.effect != pooch::Effect::scratch) {
      const bool alone = is_in(left_alone, access.address);
      EXPECT_EQ(read(places.at[i], access.bytes), alone ? op.before[i] : op.after[i]) << which;
      wrote = wrote || (!alone && op.before[i] != op.after[i]);
      EXPECT_TRUE(!alone || op.before[i] != op.after[i]) << which << ": the call itself moves it along";
    }
    EXPECT_EQ(read(access.address, access.bytes), Bytes(access.bytes, old_garbage))
        << which << " where it lay before";
  }
  EXPECT_TRUE(wrote) << op.function << " changes something";
}

}  // namespace

Memory::~Memory() {
  for (void* const memory : all_) EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

void* Memory::bytes(std::size_t count) {
  if (count == 0) return nullptr;
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, count), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, count), cudaSuccess);
  all_.push_back(memory);
  return memory;
}

namespace {
template <class Real>
std::vector<Real> values(std::size_t count, std::uint32_t seed) {
  std::vector<Real> host(count);
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (Real& value : host) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<Real>(static_cast<std::int32_t>(state) >> 8) / static_cast<Real>(1 << 23);
  }
  return host;
}
}  // namespace

float* Memory::floats(std::size_t count) {
  auto* const memory = static_cast<float*>(bytes(count * sizeof(float)));
  const auto host = values<float>(count, ++seed_);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), count * sizeof(float), cudaMemcpyHostToDevice), cudaSuccess);
  return memory;
}
double* Memory::doubles(std::size_t count) {
  auto* const memory = static_cast<double*>(bytes(count * sizeof(double)));
  const auto host = values<double>(count, ++seed_);
  EXPECT_EQ(cudaMemcpy(memory, host.data(), count * sizeof(double), cudaMemcpyHostToDevice), cudaSuccess);
  return memory;
}

void again(const char* function, const std::function<void()>& program,
           const std::vector<const void*>& left_alone) {
  ops().clear();
  program();
  KeptOp* const op = ops().empty() ? nullptr : &ops().back();
  ASSERT_NE(op, nullptr) << function << " did not reach the session";
  ASSERT_EQ(op->function, function);
  ASSERT_EQ(op->status, 0) << function;
  ASSERT_NE(op->recipe, nullptr) << function << " has no recipe";
  cudaStream_t own = nullptr;
  CUDA_OK(cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  const pooch::StreamHandle streams[] = {pooch::StreamHandle{reinterpret_cast<std::uintptr_t>(own)},
                                         pooch::StreamHandle::legacy};
  fill(*op, old_garbage);
  for (std::size_t i = 0; i < std::size(streams); ++i) {
    const Places places(*op, 512 * (i + 1));
    const pooch::Status done = op->recipe->run(places.at, streams[i]);
    ASSERT_TRUE(done) << function << ": " << done.error().message;
    CUDA_OK(cudaDeviceSynchronize());
    check(*op, places, left_alone);
  }
  EXPECT_FALSE(op->recipe->run({}, pooch::StreamHandle::legacy)) << "operands are missing";
  CUDA_OK(cudaStreamDestroy(own));
  ops().clear();
}

void never_again(const char* function, const std::function<void()>& program) {
  ops().clear();
  program();
  ASSERT_FALSE(ops().empty()) << function << " did not reach the session";
  EXPECT_EQ(ops().back().function, function);
  EXPECT_EQ(ops().back().recipe, nullptr) << function;
  ops().clear();
}

namespace {
std::vector<int> packed(const std::vector<int>& sizes) {
  std::vector<int> strides(sizes.size(), 1);
  for (std::size_t i = sizes.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * sizes[i];
  return strides;
}
}  // namespace

Tensor::Tensor(const std::vector<int>& sizes, cudnnDataType_t type) : Tensor(sizes, packed(sizes), type) {}
Tensor::Tensor(const std::vector<int>& sizes, const std::vector<int>& strides, cudnnDataType_t type) {
  EXPECT_EQ(
      cudnnSetTensorNdDescriptor(it, type, static_cast<int>(sizes.size()), sizes.data(), strides.data()),
      CUDNN_STATUS_SUCCESS);
}
Filter::Filter(const std::vector<int>& sizes, cudnnDataType_t type) {
  EXPECT_EQ(
      cudnnSetFilterNdDescriptor(it, type, CUDNN_TENSOR_NCHW, static_cast<int>(sizes.size()), sizes.data()),
      CUDNN_STATUS_SUCCESS);
}

}  // namespace replay_test

int main(int argc, char** argv) {
  setenv("SOFTGPU_DEVICE", "v100-pcie3:compute", 0);
  ::testing::InitGoogleTest(&argc, argv);
  // The wrapper's cuInit configures pooch; then the context that the session belongs to.
  if (cuInit(0) != CUDA_SUCCESS || cudaFree(nullptr) != cudaSuccess) return 1;
  return RUN_ALL_TESTS();
}
