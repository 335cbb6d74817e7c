// Which pause each buffer takes where memory is short.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "policy/movable.h"

namespace pooch::policy {

// A buffer has one pause, the one that takes most time. Where a plan that swaps all maps still needs more
// than `memory`, some buffers must be away at another time: a weight between its forward and its backward,
// say, and not between its backward and the step. Takes other pauses at the position that needs most, until
// none needs more, or no other pause helps. `maps`: with positions in the place of segments. `base`: by
// position, bytes of everything else.
AwayAt other_pauses(const BufferUses& uses, const std::vector<MovableMap>& maps,
                    const std::vector<std::uint64_t>& base, std::uint64_t memory);

}  // namespace pooch::policy
