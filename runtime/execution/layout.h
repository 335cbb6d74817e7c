// Where everything lies: for each stay of each chunk on the device, the pieces of physical memory (frames)
// that it has.
//
// Stays are intervals, so frames for single stays can be found up to the most that is on the device at once.
// A chunk whose next stay has other frames is mapped anew in between, while nobody uses it; that costs for
// each frame, so chunks go back to where they were as far as that is free. Who comes next to a frame waits
// until the content of the one before is safe on the host; frames that are free the longest by then are
// preferred.
//
// Frames that always serve together are one, so that mappings are few and large.
#pragma once

#include <cstdint>
#include <vector>

namespace pooch::runtime {

// A stretch of time that a chunk is on the device.
struct LayoutSpan {
  std::int32_t from = 0, to = 0;     // positions, inclusive
  double start_us = 0, free_us = 0;  // expected: first use or fetch; the copy to the host after it has ended
  // The content crosses the border of an iteration: all such spans of a chunk have the same frames.
  bool crosses = false;
  friend bool operator==(const LayoutSpan&, const LayoutSpan&) = default;
};

struct LayoutItem {
  std::uint64_t bytes = 0;       // whole pages
  std::vector<LayoutSpan> held;  // ascending, apart from each other; one at least
  friend bool operator==(const LayoutItem&, const LayoutItem&) = default;
};

struct Layout {
  std::vector<std::uint64_t> frames;  // bytes of each
  // By item and span, in the order of addresses. Those that all spans of the item have come first.
  std::vector<std::vector<std::vector<std::uint32_t>>> frames_of;
  double wait_us = 0;       // that the device is expected to wait at changes of tenants
  std::uint64_t moves = 0;  // frames that are mapped in one round, once everything has gone round
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t frame : frames) sum += frame;
    return sum;
  }
};

// Takes more memory than it needs only within `limit` bytes. `move_us`: what mapping a frame costs. Equal
// arguments give equal layouts.
Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit, double move_us);

}  // namespace pooch::runtime
