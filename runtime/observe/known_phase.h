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
  std::vector<std::uint64_t> local_keys;  // by position
  std::vector<Address> bases;    // by buffer: where it was in the latest iteration that was described
  std::vector<Address> earlier;  // ... and in the one before that
  std::vector<bool> quiet;       // by buffer: ops alone touch it, and copies ahead of the first
  std::vector<bool> fixed;       // by buffer: it is quiet, and was there in all of them
  std::vector<bool>
      alternates;        // by buffer: it is quiet, and is at two addresses in turn, as double buffers are
  bool settled = false;  // enough iterations were described for `bases` and `fixed` to be relied on
};

}  // namespace pooch::runtime
