// The shapes of tensors and sliding windows, as far as a library's descriptors tell.
#pragma once

#include <array>
#include <cstdint>

namespace pooch {

inline constexpr int max_rank = 8;

// Sizes from the outermost dimension in; a filter's are output channels, input channels, window.
struct Shape {
  std::uint8_t rank = 0;  // 0: not known
  std::uint8_t element_bytes = 0;
  std::array<std::int32_t, max_rank> sizes{};

  friend bool operator==(const Shape&, const Shape&) = default;
};

// Of a convolution or pooling, per spatial dimension.
struct Window {
  std::uint8_t rank = 0;  // 0: no window
  std::array<std::int32_t, 3> size{}, stride{}, padding{}, dilation{};
  std::int32_t groups = 1;

  friend bool operator==(const Window&, const Window&) = default;
};

}  // namespace pooch
