// What the driver takes of a device's memory for itself, beside what the context took at its creation: code
// at a kernel's first launch, local memory for kernels that need more than there was, tables of mappings.
// Where the device is full, it is refused.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "softgpu/driver/code/modules.h"
#include "softgpu/driver/order/scheduler.h"
#include "softgpu/driver/space/physical.h"

namespace softgpu {

class Overheads {
 public:
  // Where it is not `on`, nothing takes any memory.
  Overheads(const Choice& choice, PhysicalMemory& physical, Scheduler& scheduler);

  // What a launch of the kernel needs there, and what mappings of these addresses do. False: there is no
  // memory for it, and nothing was taken.
  bool load(Lock& lock, Kernel& kernel, int device);
  bool map(Lock& lock, std::uint64_t at, std::uint64_t bytes, int device);
  static bool loaded(const Kernel& kernel, int device);
  // The code's memory is free again; the driver keeps the rest.
  void unload(Lock& lock, Library& library);

 private:
  struct Taken {
    std::uint64_t code = 0;          // bytes
    std::uint64_t local;             // bytes of each thread
    std::set<std::uint64_t> tables;  // GiB of addresses that have one
  };
  std::uint64_t granules_for(const Taken& taken) const;
  bool take(Lock& lock, Taken wanted, int device);

  PhysicalMemory& physical_;
  Scheduler& scheduler_;
  std::uint64_t threads_;  // as many as run at once on a device
  bool on_;
  std::vector<Taken> taken_;  // by device
};

}  // namespace softgpu
