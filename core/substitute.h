// A shorter way to a call's result, with fewer memory passes, from what the call left behind. Batch norm
// (Ioffe, Szegedy 2015) reads its input once for the statistics and once more to normalise it; recomputed
// from the statistics that it saved, it reads its input once.
//
// Libraries do not document which formula rounds as they do. All are compared with the library's own bits
// (runtime/observe/substitute_trials.h), and what one recomputes is compared like every replay.
//
// The formulas are listed here and in interpose/device/batch_norm_vector.h (the source of batch_norm.cu and
// batch_norm.ptx), softgpu/kernels/batch_norm.cpp and, for tests on a GPU without pooch,
// tests/gpu/cudnn_batch_norm.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/ids.h"

namespace pooch {

// y of an element x and its channel's numbers, in float, each operation rounded once:
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

// Batch norm over packed tensors, x and y alike: `rows` of `row` elements each. Each row belongs to one
// channel, in turn (NCHW), or each element of a row does (NHWC).
struct BatchNorm {
  std::uint64_t rows = 0;
  std::uint32_t row = 0, channels = 0;
  bool channel_of_row = true;
  bool half = false;  // x and y are half precision; all else is float

  friend bool operator==(const BatchNorm&, const BatchNorm&) = default;
};

// Where its tensors are.
template <class Place>
struct BatchNormOperands {
  Place x{}, y{}, scale{}, bias{}, mean{}, inverse{};  // inverse: of the standard deviation
};

// What a call does to its only operand: max(x, 0); NaN stays NaN or becomes 0.
enum class Clip : std::uint8_t { none, keeps_nan, drops_nan };
inline constexpr std::array<std::string_view, 3> clip_names{"none", "keeps_nan", "drops_nan"};
constexpr std::string_view name(Clip clip) {
  return clip_names[static_cast<std::size_t>(clip)];
}

// How a call's result can be recomputed: `operands` are indices of its accesses.
struct Substitute {
  BatchNorm how;
  BatchNormOperands<std::uint32_t> operands;
};

// For a Device.
struct NormaliseCall {
  BatchNorm how;
  BatchNormOperands<Address> at;
  Formula formula{};
  Clip clip = Clip::none;  // applied to y at the end
};

}  // namespace pooch
