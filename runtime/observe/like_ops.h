// Times for ops that have not been measured yet, from like ops of phases that have.
#pragma once

#include <span>

#include "core/profile.h"

namespace pooch::runtime {

// Sets the time of every op and copy of `phase`, and iteration_us, from `measured` phases of the same
// program. An op like a measured one (same function, mode, shapes and window) takes as long; one of the same
// function with other shapes takes as long per byte as the one nearest in size; any other, as all ops
// together per byte. Estimates need correction once they are measured. Without any measured op nothing
// changes. Returns whether there was any.
bool estimate_times(PhaseProfile& phase, std::span<const PhaseProfile* const> measured);

}  // namespace pooch::runtime
