// A phase as this process knows it.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"
#include "tracker/phase_profile.h"

namespace pooch::runtime {

struct KnownPhase {
  PhaseProfile profile;        // its times are measured in `profile.measured` iterations; in none: estimated
  std::uint64_t revision = 0;  // grows with every change of structure or times
  tracker::OperandBuffers operands;
  std::vector<Address> bases;  // by buffer: where it was in the latest iteration that was described
  std::vector<bool> fixed;     // by buffer: it was there in all of them, and only ops touch it
  bool settled = false;        // enough iterations were described for `bases` and `fixed` to be relied on
};

}  // namespace pooch::runtime
