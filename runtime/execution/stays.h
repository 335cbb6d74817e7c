// Who of the planned phases is on the device when: what a layout is made for.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/execution/layout.h"
#include "runtime/execution/script.h"
#include "runtime/memory/residency.h"

namespace pooch::runtime {

// A planned phase and where its buffers lie.
struct PlacedPhase {
  const Script* script = nullptr;
  const KnownPhase* known = nullptr;
  std::vector<std::vector<Range*>> ranges;  // by buffer: one, or two in turn; none: it has no place
  std::vector<Range*> slots;                // by slot of the script; nullptr: a small one
};

struct Stay {
  LayoutSpan span;         // in steps of its phase
  std::uint32_t spot = 0;  // which of the place's mappings it has
};

// A chunk with its stays. Neighbours that come and go together are one, which they become when the layout is
// taken.
struct Place {
  Range* range = nullptr;
  std::size_t first = 0, count = 1;  // of the range's chunks
  std::uint64_t bytes = 0;
  Chunk* chunk = nullptr;             // the first one
  std::vector<std::vector<Stay>> in;  // by phase, ascending
  // nullptr: it is not on the device then.
  const Stay* at(std::size_t phase, std::int32_t step) const;
};

// By address. Neighbours become one of at most `most_bytes`: content comes and goes with a chunk.
std::vector<Place> places_of(const std::vector<PlacedPhase>& phases, std::uint64_t most_bytes);
// By place, the phases one after the other.
std::vector<LayoutItem> items_of(const std::vector<Place>& places, const std::vector<PlacedPhase>& phases);
// Of one iteration of each phase.
double duration_us(const std::vector<PlacedPhase>& phases);
// Of the phase's buffers that have no place, and of what is alive now: the most bytes at once. `alive`: bytes
// of each allocation that is there and has no place.
std::uint64_t most_beside(const PlacedPhase& phase, std::vector<std::uint64_t> alive);

}  // namespace pooch::runtime
