// Which word of its parameters a block of a kernel uses: a small expression over the block's number, as
// `pooch effects` writes it: "(p[CTAID.X + 2048].u8 * 8)" is the byte at parameter offset 2048 + block
// number, times 8 (docs/effects.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/function_ref.h"

namespace pooch {

// Blocks in x, y and z, and threads in each block.
struct LaunchGrid {
  std::uint32_t blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
};

class WordIndex {
 public:
  // `bytes` bytes of the parameters from `offset` on, as a little-endian number; 0 beyond their end.
  using Read = FunctionRef<std::uint64_t(std::int64_t offset, unsigned bytes)>;

  // Empty if the text is no expression, or depends on anything but block numbers, the grid and the
  // parameters.
  static std::optional<WordIndex> parse(std::string_view text);

  // Bytes. `block`: its number in x, y and z.
  std::int64_t at(const std::uint32_t (&block)[3], const LaunchGrid& grid, Read read) const;
  // It depends on the block's number along this axis.
  bool depends_on(int axis) const { return axes_[axis]; }

 private:
  enum class Kind : std::uint8_t { constant, block, blocks, threads, load, add, multiply, mask };
  struct Node {
    Kind kind = Kind::constant;
    std::uint8_t axis = 0;
    std::uint8_t bytes = 0;  // of a load
    bool is_signed = false;  // of a load
    std::int64_t number = 0;
    int a = -1, b = -1;  // operands, by place; -1: none
  };
  class Parser;

  std::uint32_t value(int node, const std::uint32_t (&block)[3], const LaunchGrid& grid,
                      const Read& read) const;

  std::vector<Node> nodes_;  // operands come before what uses them; the last one is the whole
  bool axes_[3] = {};
};

}  // namespace pooch
