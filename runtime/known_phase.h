// A phase as this process knows it.
#pragma once

#include <vector>

#include "core/profile.h"
#include "tracker/phase_profile.h"

namespace pooch::runtime {

struct KnownPhase {
  PhaseProfile profile;
  tracker::OperandBuffers operands;
  std::vector<Address> bases;  // by buffer: where it was in the latest iteration that was described
  std::vector<bool> fixed;     // by buffer: it was there in all of them, and only ops touch it
};

}  // namespace pooch::runtime
