// Every duration of virtual time, in one place: the model's numbers made into nanoseconds.
#pragma once

#include <cstdint>

#include "softgpu/driver/model/model.h"

namespace softgpu {

class Cost {
 public:
  explicit Cost(const Model& model) : model_(model) {}

  // launch_gap + max(flops / rate(kind), bytes / bandwidth(kind)); an unknown kind counts as elementwise.
  Nanoseconds kernel(const char* kind, double flops, double bytes) const;
  Nanoseconds copy_to_device(std::uint64_t bytes) const;
  Nanoseconds copy_to_host(std::uint64_t bytes) const;
  // A copy within the device reads and writes each byte once.
  Nanoseconds copy_device(std::uint64_t bytes) const;
  Nanoseconds set(std::uint64_t bytes) const;
  // What a kernel waits for the link when it reads and writes host memory itself.
  Nanoseconds reach(std::uint64_t read, std::uint64_t written) const;
  // Between two host addresses, by the host.
  Nanoseconds copy_host(std::uint64_t bytes) const;
  // Page-locking `bytes`.
  Nanoseconds pin(std::uint64_t bytes) const;

 private:
  const Model& model_;
};

}  // namespace softgpu
