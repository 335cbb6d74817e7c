// Which bytes are text that can be shown.
#pragma once

#include <cstddef>
#include <string_view>

namespace pooch {

// How many bytes the UTF-8 character at the front of `text`, which is not empty, has. 0: it is none, or a
// control character of either of Unicode's sets.
std::size_t utf8_character(std::string_view text);

}  // namespace pooch
