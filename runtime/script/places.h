// Which chunk of the planned phases is on the device when: what a layout is made for.
#pragma once

#include <cstdint>
#include <vector>

#include "core/layout.h"
#include "core/profile.h"
#include "core/result.h"
#include "runtime/script/script.h"

namespace pooch::runtime {

// A planned phase and where its buffers lie. `script` and `profile` must outlive it.
struct PlacedPhase {
  const Script* script = nullptr;
  const PhaseProfile* profile = nullptr;
  // By buffer: indices of ranges. One, or two in turn; none: it has no place.
  std::vector<std::vector<std::uint32_t>> ranges;
};

struct Stay {
  LayoutSpan span;         // in steps of its phase
  std::uint32_t spot = 0;  // which of the place's mappings it has
};

// A piece of a range with its stays: a chunk, once the layout is taken. Of a buffer that lies in two ranges
// in turn, alone in them, and begins anew in each iteration, two chunks: both are mapped to the place's
// frames, and in each iteration one of them uses those.
struct Place {
  std::uint32_t range = 0;
  std::uint32_t twin = 0;  // the other range, or `range`
  std::size_t piece = 0;   // of the range's
  std::uint64_t bytes = 0;
  std::vector<std::vector<Stay>> in;  // by phase, ascending
  // nullptr: it is not on the device then.
  const Stay* at(std::size_t phase, std::int32_t step) const;
};

// The temporary memory of replays has places too: a range for each large slot, behind those of the program,
// the phases one after the other. Appends them.
void add_slots(const std::vector<PlacedPhase>& phases, std::vector<ProfileRange>& ranges);

// By range and piece, slots last. `ranges`: with slots. Pieces are those under `cap`: core/pages.h.
std::vector<Place> places_of(const std::vector<PlacedPhase>& phases, const std::vector<ProfileRange>& ranges,
                             std::uint64_t cap);
// By place, the phases one after the other.
std::vector<LayoutItem> items_of(const std::vector<Place>& places, const std::vector<PlacedPhase>& phases);
// Of one iteration of each phase.
double duration_us(const std::vector<PlacedPhase>& phases);
// Bytes beside all places, at most at once: buffers that have none, allocations that are there and have none,
// small slots, and a page for what is rounded.
std::uint64_t bytes_beside(const std::vector<Place>& places, const std::vector<PlacedPhase>& phases,
                           const std::vector<ProfileRange>& ranges);

}  // namespace pooch::runtime
