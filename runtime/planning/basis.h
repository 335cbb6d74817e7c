// What a plan was asked for with, to tell later whether that still holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/observe/known_phase.h"

namespace pooch::runtime {

struct Basis {
  std::uint64_t revision = 0;  // of the phase, when this was last seen to hold
  std::string structure;
  std::vector<double> us;    // by op, with the host's gap before it; empty: the plan existed
  double in_core_ms = 0;     // of such a plan: its own in-core time; 0: not known yet
  std::uint64_t unseen = 0;  // bytes taken by others than its ops
};

// By op, with the host's gap before it.
std::vector<double> op_times(const PhaseProfile& phase);
// Whether the phase has another structure by now, or other times.
bool differs(const Basis& basis, const KnownPhase& known);

}  // namespace pooch::runtime
