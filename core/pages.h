// The units in which device memory is handed out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/ids.h"

namespace pooch {

// The unit of physical memory that everything is counted in.
inline constexpr std::uint64_t page = 2 * MiB;
// Allocations below this size pass through: together they are small, and a page for each would waste more
// than moving them could gain.
inline constexpr std::uint64_t smallest_managed = page;

// The sizes of handles, largest first. A cap does without those that are a large share of it: too few pieces
// would be left to move. Sizes in between spare mappings, but each more leaves memory in handles that nobody
// wants: a cap that is small has few.
inline constexpr std::uint64_t handle_classes[] = {512 * MiB, 256 * MiB, 128 * MiB, 64 * MiB, 32 * MiB,
                                                   16 * MiB,  8 * MiB,   4 * MiB,   page};
constexpr bool has_handles_of(std::uint64_t bytes, std::uint64_t cap) {
  if (bytes == page) return true;
  if (bytes > 128 * MiB) return bytes <= cap / 32;
  if (bytes == 128 * MiB || bytes == 16 * MiB) return bytes <= cap / 16;
  return bytes < 16 * MiB ? cap >= 4 * GiB : bytes <= cap / 256;
}
constexpr std::uint64_t largest_handle(std::uint64_t cap) {
  for (const std::uint64_t bytes : handle_classes)
    if (has_handles_of(bytes, cap)) return bytes;
  return page;
}

// Large buffers move, and lie in memory, in pieces of at most a 32nd of the cap.
constexpr std::uint64_t largest_piece(std::uint64_t cap) {
  return std::max(page, cap / 32 / page * page);
}
// All pieces of a buffer but the last have this size: the buffer's share by a power of two. Buffers that are
// such shares of each other, as a network's maps are, have pieces of one size, which fit into each other's
// memory.
constexpr std::uint64_t piece_of(std::uint64_t bytes, std::uint64_t most) {
  for (std::uint64_t parts = 1;; parts *= 2)
    if (const std::uint64_t each = round_up((bytes + parts - 1) / parts, page); each <= std::max(most, page))
      return each;
}
// Of `bytes`, whole pages. The last is smaller. If next to nothing would be missing, it has their size and
// ends behind the buffer.
inline std::vector<std::uint64_t> pieces_of(std::uint64_t bytes, std::uint64_t most) {
  const std::uint64_t each = piece_of(bytes, most);
  std::vector<std::uint64_t> pieces(bytes / each, each);
  if (const std::uint64_t rest = bytes % each; rest > 0)
    pieces.push_back(each - rest <= each / 32 ? each : rest);
  return pieces;
}

}  // namespace pooch
