// Forward, backward, and what each version is for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/profile.h"

namespace pooch::tracker {

// Position of the first op of the backward pass, or `outside` if there is none. It begins after the last
// forward-only op before the first backward-only op; if no kind tells, at the position at which most is
// alive.
std::int32_t find_turn(const PhaseProfile& phase);

// Sets turn, kind and the roles of all versions. `inputs`: the versions that were copied in for the
// iteration.
void assign_roles(PhaseProfile& phase, const std::vector<std::uint32_t>& inputs);

}  // namespace pooch::tracker
