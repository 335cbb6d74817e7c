// Which chunks share which pieces of physical memory: chunks whose times on the device do not meet may, and
// every chunk keeps its pieces for good. Interval colouring, for intervals with holes (a map that is away in
// between), each item in turn taking what costs least; mostly it reaches the most that is on the device at
// once, except where single maps are a large share of the memory (docs/decisions/0011). Pieces
// are as small as handles are: a large chunk takes over from several small ones, and they from it.
//
// Who comes next waits until the content of the one before is safe on the host, so of the pieces that fit
// those are taken that are free the longest by then.
#pragma once

#include <cstdint>
#include <vector>

namespace pooch::runtime {

// A stretch of time that a chunk is on the device.
struct LayoutSpan {
  std::int32_t from = 0, to = 0;     // positions, inclusive
  double start_us = 0, free_us = 0;  // expected: first use or fetch; the copy to the host after it has ended
};

struct LayoutItem {
  std::uint64_t bytes = 0;       // a multiple of `unit`
  std::uint64_t unit = 0;        // of the pieces that it is made of
  std::vector<LayoutSpan> held;  // ascending
};

struct Layout {
  std::vector<std::uint64_t> frames;                  // bytes of each
  std::vector<std::vector<std::uint32_t>> frames_of;  // by item
  double wait_us = 0;  // that the device is expected to wait at changes of tenants
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t frame : frames) sum += frame;
    return sum;
  }
};

// Takes more memory to avoid waits only within `limit` bytes; what it needs in any case it takes beyond.
Layout lay_out(const std::vector<LayoutItem>& items, std::uint64_t limit);

}  // namespace pooch::runtime
