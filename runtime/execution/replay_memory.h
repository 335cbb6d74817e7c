// Temporary memory of replays. It comes and goes in the same order in every iteration, so its addresses
// repeat and mostly are mapped still.
#pragma once

#include <cstdint>

#include "runtime/memory/address_space.h"
#include "runtime/memory/residency.h"
#include "runtime/placement/departures.h"

namespace pooch::runtime {

class ReplayMemory {
 public:
  ReplayMemory(AddressSpace& temporaries, Residency& residency, Departures& departures)
      : temporaries_(temporaries), residency_(residency), departures_(departures) {}

  Result<Range*> open(std::uint64_t bytes);
  Status close(Range& range);
  // Memory for small slots, `bytes` at least; stays.
  Result<Range*> small(std::uint64_t bytes);
  bool is_small(const Range& range) const { return &range == small_; }
  // Nothing lies in the range any more: its memory is reused first.
  Status let_go(Range& range);

 private:
  AddressSpace& temporaries_;  // addresses
  Residency& residency_;
  Departures& departures_;
  Range* small_ = nullptr;
};

}  // namespace pooch::runtime
