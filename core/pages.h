// The units in which device memory is handed out.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pooch {

// The unit of physical memory that everything is counted in.
inline constexpr std::uint64_t page = 2 * MiB;
// Allocations below this size pass through: together they are small, and a page for each would waste more
// than moving them could gain.
inline constexpr std::uint64_t smallest_managed = page;

// The sizes of handles. A cap does without those that are a large share of it: too few pieces would be left
// to move.
inline constexpr std::uint64_t handle_classes[] = {128 * MiB, 16 * MiB, page};
constexpr std::uint64_t largest_handle(std::uint64_t cap) {
  for (const std::uint64_t bytes : handle_classes)
    if (bytes <= cap / 16) return bytes;
  return page;
}
// The sizes of handles of at most `most` that `bytes`, whole pages, are made of, largest first.
inline std::vector<std::uint64_t> compose(std::uint64_t bytes, std::uint64_t most) {
  std::vector<std::uint64_t> pieces;
  for (const std::uint64_t size : handle_classes)
    for (; size <= most && bytes >= size; bytes -= size) pieces.push_back(size);
  return pieces;
}

}  // namespace pooch
