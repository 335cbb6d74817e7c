// Host memory about to be copied to the device: rows of `width` bytes in layers. Readers see the rows as
// contiguous, each padded to whole words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "core/ids.h"

namespace pooch {

struct HostBlock {
  const std::byte* first = nullptr;
  std::uint64_t width = 0, height = 1, depth = 1;
  std::uint64_t pitch = 0, slice = 0;  // from row to row, from layer to layer
  std::uint64_t skipped = 0;           // bytes before the first whole word, if there is only one row

  HostBlock() = default;
  explicit HostBlock(std::span<const std::byte> memory) : first(memory.data()), width(memory.size()) {}

  std::uint64_t bytes() const {
    return whole() ? width - std::min(width, skipped) : round_up(width, word) * height * depth;
  }
  // Its bytes [offset, offset + part.size()), copied to `part` or in place. Both are multiples of a word,
  // except at its end.
  std::span<const std::byte> at(std::uint64_t offset, std::span<std::byte> part) const {
    if (whole()) return {first + skipped + offset, part.size()};
    const std::uint64_t row_bytes = round_up(width, word);
    for (std::size_t done = 0; done < part.size();) {
      const std::uint64_t row = (offset + done) / row_bytes, from = (offset + done) % row_bytes;
      const std::size_t length = std::min<std::size_t>(part.size() - done, row_bytes - from);
      const std::size_t there = from < width ? std::min<std::size_t>(length, width - from) : 0;
      std::memcpy(part.data() + done, first + row / height * slice + row % height * pitch + from, there);
      std::memset(part.data() + done + there, 0, length - there);
      done += length;
    }
    return part;
  }

 private:
  static constexpr std::uint64_t word = sizeof(std::uint64_t);
  bool whole() const { return height == 1 && depth == 1; }
};

}  // namespace pooch
