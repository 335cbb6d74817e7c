// What stands behind ncclComm_t. A clique is the communicators that were made together, one per rank, each on
// a device of its own; all of them in one process.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "softgpu/nccl/task.h"

#define SOFTGPU_NCCL extern "C" __attribute__((visibility("default")))
// An exported function under both of its names.
#define SOFTGPU_NCCL_BOTH(function, parameters, arguments) \
  SOFTGPU_NCCL ncclResult_t function parameters;           \
  SOFTGPU_NCCL ncclResult_t p##function parameters {       \
    return function arguments;                             \
  }                                                        \
  SOFTGPU_NCCL ncclResult_t function parameters

namespace softgpu::nccl {

struct Clique {
  std::mutex mutex;
  std::condition_variable launched;
  std::vector<ncclComm_t> ranks;  // null: not there yet
  // Tasks that wait for others, by rank: collectives in order, transfers by (from, to).
  std::vector<std::deque<Task>> collectives;
  std::map<std::pair<int, int>, std::deque<Task>> sends, receives;
  bool aborted = false;

  explicit Clique(std::size_t size) : ranks(size), collectives(size) {}
};

// A number to multiply by.
struct Operator {
  double value;
  std::uint64_t address;  // in device memory; 0: `value` is it
  ncclDataType_t type;
};

struct Registered {
  std::uint64_t address, bytes;
};

}  // namespace softgpu::nccl

struct ncclComm {
  std::shared_ptr<softgpu::nccl::Clique> clique;
  int rank = 0;
  int device = 0;
  void* buffers = nullptr;  // device memory that its kernels go through
  cudaEvent_t given = nullptr, done = nullptr;
  std::uint64_t waiting = 0;  // tasks of its that were not launched yet; guarded by the clique's mutex
  ncclResult_t failed = ncclSuccess;
  std::map<int, softgpu::nccl::Operator> operators;
  std::map<void*, softgpu::nccl::Registered> registered;
  int next_operator = ncclNumOps;
};

namespace softgpu::nccl {

constexpr std::uint64_t buffer_bytes = std::uint64_t{4} << 20;

// Makes a device's primary context current, and the one before again.
class OnDevice {
 public:
  explicit OnDevice(int device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  bool well = false;

 private:
  CUcontext before_ = nullptr;
};

// One line on stderr, and the status.
ncclResult_t refuse(ncclResult_t status, const char* function, const char* why);

}  // namespace softgpu::nccl
