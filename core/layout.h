// Where everything lies while plans are followed: for each stay of each chunk on the device, its frames
// (pieces of physical memory).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pooch {

// The time of one stay of a chunk on the device.
struct LayoutSpan {
  std::int32_t from = 0, to = 0;     // steps, inclusive
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

// The same stays, whatever times are expected of them. When what the next iteration finds begins to arrive,
// at the end of this one, is such a time.
bool same_stays(const std::vector<LayoutItem>& some, const std::vector<LayoutItem>& others);

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

// As a plan has it: with what it is for.
struct PlanLayout {
  std::vector<std::string> phases;  // ids, ascending; their steps are counted one phase after the other
  std::vector<LayoutItem> items;    // their spans have no times
  Layout layout;
  std::uint64_t at_once = 0;  // bytes: the most on the device at one time, which no layout can do without
};

// Whether its parts fit together: every stay has frames for all of the item's bytes, which nobody else has at
// that time. Empty, or what is wrong: its path, what it is, and what is accepted.
std::string what_is_wrong(const PlanLayout& layout);

}  // namespace pooch
