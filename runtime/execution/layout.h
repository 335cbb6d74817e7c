// Where everything lies: for each stay of each chunk on the device, its frames (pieces of physical memory).
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

namespace pooch::runtime {

// The time of one stay of a chunk on the device.
struct LayoutSpan {
  std::int32_t from = 0, to = 0;     // positions, inclusive
  double start_us = 0, free_us = 0;  // expected: first use or fetch; the copy to the host after it has ended
  // The content crosses the border of an iteration: all such spans of a chunk have the same frames.
  bool crosses = false;
  friend bool operator==(const LayoutSpan&, const LayoutSpan&) = default;
};

struct LayoutItem {
  std::uint64_t bytes = 0;       // whole pages
  std::vector<LayoutSpan> held;  // ascending, disjoint; at least one
  friend bool operator==(const LayoutItem&, const LayoutItem&) = default;
};

struct Layout {
  std::vector<std::uint64_t> frames;  // bytes of each
  // By item and span, in the order of addresses. Those that all spans of the item have come first.
  std::vector<std::vector<std::vector<std::uint32_t>>> frames_of;
  double wait_us = 0;       // that the device is expected to wait at changes of tenants
  std::uint64_t moves = 0;  // frames mapped anew in one pass over all spans, in steady state
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t frame : frames) sum += frame;
    return sum;
  }
};

// The most bytes on the device at one time: no layout needs less.
std::uint64_t most_at_once(const std::vector<LayoutItem>& items);

// Uses more memory than the minimum only within `limit` bytes. `move_us`: what mapping a frame costs. Equal
// arguments give equal layouts.
Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us);

}  // namespace pooch::runtime
