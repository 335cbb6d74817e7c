// A text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace pooch::runtime {

// In quotes; what is not printable ASCII becomes '?'.
inline std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c >= ' ' && c <= '~' ? c : '?';
  }
  return out + '"';
}

}  // namespace pooch::runtime
