// What one rank is asked for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "softgpu/include/nccl.h"

namespace softgpu::nccl {

enum class Kind : std::uint8_t {
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  all_to_all,
  gather,
  scatter,
  send,
  receive
};

// Counts are of elements.
struct Task {
  Kind kind;
  ncclComm_t communicator;
  std::uint64_t send = 0, receive = 0;  // device addresses; 0: none
  std::uint64_t count = 0;
  ncclDataType_t type = ncclFloat32;
  int op = ncclSum;
  int peer = 0;  // or the root
  cudaStream_t stream = nullptr;
};

}  // namespace softgpu::nccl
