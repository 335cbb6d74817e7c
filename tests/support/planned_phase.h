// A phase as the runtime would know it, from its profile alone.
#pragma once

#include "core/profile.h"
#include "runtime/observe/known_phase.h"

namespace pooch::test {

// One operand for each buffer that an op touches.
runtime::KnownPhase known_phase(const PhaseProfile& phase);
// Of the plans in fuzz/corpus/plan: some maps are kept, some swapped, some made again.
Profile planned_profile();

}  // namespace pooch::test
