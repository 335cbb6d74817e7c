// Finds layouts (core/layout.h).
//
// Stays are intervals, so frames for single stays can be found up to the peak of what is on the device at
// once. A chunk whose next stay has other frames is mapped anew in between, while nobody uses it; that costs
// for each frame, so chunks return to their earlier frames where that is free. A frame's next tenant waits
// until the previous tenant's content is on the host; frames that have been free the longest by then are
// preferred.
//
// Frames that always serve together are one, so that mappings are few and large.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.h"

namespace pooch::runtime {

// The most bytes on the device at one time: no layout needs less.
std::uint64_t most_at_once(const std::vector<LayoutItem>& items);

// Uses more memory than the minimum only within `limit` bytes. `move_us`: what mapping a frame costs. Equal
// arguments give equal layouts.
Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us);

}  // namespace pooch::runtime
