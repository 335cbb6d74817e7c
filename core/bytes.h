// Sizes as people write them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/result.h"

namespace pooch {

// "16GiB", "512 MiB", "1.5g", "1073741824"; units K, M, G, T, with or without "iB", powers of two, and KB,
// MB, GB, TB, powers of ten, any case. With `whole` > 0 also "80%" of it. Errors: invalid_argument, the text
// and what is accepted.
Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t whole = 0);

// "1.50 GiB", "3.00 MiB", "12 B": binary units, mostly three digits.
std::string format_bytes(std::uint64_t bytes);

}  // namespace pooch
