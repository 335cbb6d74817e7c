// What plans need to know of the device, measured once, on the pool's own memory: how fast the link copies,
// and what moving a mapping costs the host.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"
#include "runtime/memory/held.h"
#include "runtime/session/memory.h"

namespace pooch::runtime {

class DeviceProbes {
 public:
  DeviceProbes(Device& device, Memory& memory, std::uint64_t cap)
      : device_(device), memory_(memory), cap_(cap) {}

  bool done() const { return !link_.empty(); }
  bool tried() const { return tried_; }
  // Measures, over at most an eighth of the memory there is. The device is idle. What cannot be measured
  // stays unknown, and the log says so.
  void run(Held& held);
  // 0: unknown.
  double out_us_per_byte() const { return pooch::out_us_per_byte(link_); }
  void fill(Profile& profile) const;

 private:
  void probe_mapping();
  Status probe_link_over(Address address, std::uint64_t bytes);

  Device& device_;
  Memory& memory_;
  const std::uint64_t cap_;
  std::vector<LinkSample> link_;
  std::vector<MoveSample> moves_;
  double launch_us_ = 0;
  bool tried_ = false;
};

}  // namespace pooch::runtime
