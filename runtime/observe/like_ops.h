// Times for ops that have not been measured yet, from like ops of phases that have.
#pragma once

#include <span>

#include "core/profile.h"

namespace pooch::runtime {

// Sets the time of every op and copy of `phase`, and iteration_us, from `measured` phases of the same
// program. An op like one that was measured (same function, mode, shapes and window) takes as long; one of
// the same function with other shapes as long by byte, judged from the one that is nearest in size; any other
// as all ops together by byte. What is estimated needs correction once it is measured. Without any measured
// op it stays as it is. Returns whether there was any.
bool estimate_times(PhaseProfile& phase, std::span<const PhaseProfile* const> measured);

}  // namespace pooch::runtime
