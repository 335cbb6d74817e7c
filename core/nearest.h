// The name that somebody who mistyped one most likely meant.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace pooch {

// The one of `names` with the fewest letters inserted, left out, replaced or swapped with their neighbour,
// if those are at most two, and fewer than half of the name's. Of several the first.
std::optional<std::string> nearest(std::string_view typed, std::span<const std::string> names);
// "; did you mean NAME?", or nothing.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names);

}  // namespace pooch
