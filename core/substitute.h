// Another way to what a call makes, in fewer passes over memory: from what the call itself left behind. Batch
// norm (Ioffe, Szegedy 2015) reads its input once for the statistics and once more to normalise it; made
// again from the statistics that it saved, it reads its input once.
//
// Which formula rounds as a library does is not documented. All are tried against the library's own bits
// (runtime/observe/substitute_trials.h), and what is made by one is compared like every replay.
//
// The formulas stand here, in interpose/batch_norm_vector.h (of which batch_norm.cu and batch_norm.ptx are
// made), softgpu/kernels/batch_norm.cpp and, to be tried on a GPU without pooch,
// tests/gpu/cudnn_batch_norm.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ids.h"

namespace pooch {

// In float, each operation rounded once; y = ... of an element x and of its channel's numbers:
enum class Formula : std::uint8_t {
  scaled_then_fma,      // fma((x - mean) * scale, inverse, bias)
  normalised_then_fma,  // fma((x - mean) * inverse, scale, bias)
  centred_then_fma,     // fma(x - mean, scale * inverse, bias)
  one_fma,              // fma(x, scale * inverse, bias - mean * (scale * inverse))
};
inline constexpr std::array<std::string_view, 4> formula_names{"scaled_then_fma", "normalised_then_fma",
                                                               "centred_then_fma", "one_fma"};
inline constexpr std::size_t formulas = formula_names.size();
constexpr std::string_view name(Formula formula) {
  return formula_names[static_cast<std::size_t>(formula)];
}
constexpr std::optional<Formula> parse_formula(std::string_view text) {
  for (std::size_t i = 0; i < formulas; ++i)
    if (formula_names[i] == text) return static_cast<Formula>(i);
  return std::nullopt;
}

// Batch norm over packed tensors, x and y alike: `rows` of `row` elements each. A row belongs to one channel,
// the next row to the next one (NCHW), or each of its elements does (NHWC).
struct BatchNorm {
  std::uint64_t rows = 0;
  std::uint32_t row = 0, channels = 0;
  bool channel_of_row = true;
  bool half = false;  // x and y are half precision; all else is float

  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

// Where its tensors lie.
template <class Place>
struct BatchNormOperands {
  Place x{}, y{}, scale{}, bias{}, mean{}, inverse{};  // inverse: of the standard deviation
};

// What a call makes of its only operand: max(x, 0), and 0 or NaN of NaN.
enum class Clip : std::uint8_t { none, keeps_nan, drops_nan };
inline constexpr std::array<std::string_view, 3> clip_names{"none", "keeps_nan", "drops_nan"};
constexpr std::string_view name(Clip clip) {
  return clip_names[static_cast<std::size_t>(clip)];
}

// How a call can be made again: `operands` are indices of its accesses.
struct Substitute {
  BatchNorm how;
  BatchNormOperands<std::uint32_t> operands;
};

// For a device.
struct NormaliseCall {
  BatchNorm how;
  BatchNormOperands<Address> at;
  Formula formula{};
  Clip clip = Clip::none;  // what becomes of y at last
};

}  // namespace pooch
