// The upper half of a float, rounded to nearest even.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace softgpu {

struct Bfloat {
  std::uint16_t bits;

  explicit Bfloat(double value) {
    const auto narrow = static_cast<float>(value);
    const auto whole = std::bit_cast<std::uint32_t>(narrow);
    bits =
        static_cast<std::uint16_t>(std::isnan(value) ? 0x7fc0 : (whole + 0x7fff + ((whole >> 16) & 1)) >> 16);
  }
  explicit operator double() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
};

}  // namespace softgpu
