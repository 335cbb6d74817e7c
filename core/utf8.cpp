#include "core/utf8.h"

namespace pooch {

std::size_t utf8_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7F ? 1 : 0;
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // The second set of control characters, overlong forms, halves of UTF-16 pairs, beyond Unicode.
  const unsigned second = byte(1);
  const bool wrong = (lead == 0xC2 && second < 0xA0) || (lead == 0xE0 && second < 0xA0) ||
                     (lead == 0xED && second >= 0xA0) || (lead == 0xF0 && second < 0x90) ||
                     (lead == 0xF4 && second >= 0x90);
  return wrong ? 0 : size;
}

}  // namespace pooch
