// Which bytes are text that can be shown.
#pragma once

#include <cstddef>
#include <string_view>

namespace pooch {

// Bytes of the UTF-8 character at the start of `text`, which is not empty. 0: not a character, or a control
// character of either of Unicode's sets (C0, C1).
std::size_t utf8_character(std::string_view text);

}  // namespace pooch
