// Checks that a profile's parts fit together, apart from its text.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/profile.h"
#include "core/result.h"

namespace pooch {

// The largest values in a profile, so that sums of them stay in range.
inline constexpr std::uint64_t most_bytes = std::uint64_t{1} << 50;
inline constexpr std::uint64_t most_count = std::uint64_t{1} << 53;  // what a JSON number can carry
inline constexpr std::uint32_t most_streams = 1u << 16;
inline constexpr double most_us = 1e15;

// Indices, orders and regions. Error: invalid_argument with the path of the value and what is accepted.
Status check(const Profile& profile);

}  // namespace pooch
