// What ranks do together: tasks that belong together, and the two kernels that carry each of them out.
//
// On the device a rank gives, then takes: `nccl_give` reads the rank's data and puts it where the others find
// it, `nccl_take`, behind the givers' events, writes what the rank gets of it. The kernels get nothing but a
// pointer to the exchange: as in NCCL no launch shows the buffers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "softgpu/cudart/kernel_library.h"
#include "softgpu/nccl/task.h"

namespace softgpu::nccl {

KernelLibrary& kernels();
// False where the device cannot be used. Launches a kernel of its own.
bool find_out_whether_kernels_run();

// Bytes of an element; 0: a type without arithmetic here.
std::size_t element_bytes(ncclDataType_t type);

struct Exchange {
  std::vector<Task> tasks;                     // in the order of ranks; a sender, then a receiver
  std::vector<std::vector<std::byte>> staged;  // what each gave; in compute mode alone
  // For the device in timing mode: what each gave, told when it has (image.h).
  std::vector<std::shared_ptr<std::uint64_t>> told;
  std::atomic<int> kernels_to_run{0};  // the last one deletes the exchange

  std::uint64_t given_bytes(std::size_t number) const;
  std::uint64_t taken_bytes(std::size_t number) const;
  // What a link carries for one rank, by the algorithms that NCCL has for large messages (rings).
  double wire_bytes() const;
};

// Puts all ranks' work into their streams. The caller has made sure that the tasks fit together.
ncclResult_t launch(std::vector<Task> tasks);

// Reduces `count` elements from number `first` on of what was staged, in the order of ranks, so that all get
// the same.
void reduce(const Exchange& exchange, std::uint64_t first, std::uint64_t count, std::byte* to);
// Multiplies every element.
void scale(std::vector<std::byte>& data, ncclDataType_t type, double factor);
// One element as a number.
double number_at(const void* element, ncclDataType_t type);

}  // namespace softgpu::nccl
