#include "core/bytes.h"

#include <fmt/core.h>

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>

namespace pooch {
namespace {

Error bad_size(std::string_view text, bool percent) {
  return {ErrorCode::invalid_argument,
          fmt::format("'{}' is not a size: accepted are bytes with a unit (16GiB, 512M, 16GB, 1073741824){}",
                      text, percent ? " or a share (80%)" : "")};
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

// Bytes of a unit: "", "B"; "K", "KiB", … of 1024; "KB", … of 1000. 0: it is none.
double unit_bytes(std::string_view unit) {
  std::string lower;
  for (char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 1;
  constexpr std::string_view letters = "kmgt";
  const auto power = letters.find(lower[0]);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = std::string_view(lower).substr(1);
  if (rest != "" && rest != "b" && rest != "ib") return 0;
  return std::pow(rest == "b" ? 1000 : 1024, static_cast<double>(power) + 1);
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t whole) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, failure] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (failure != std::errc() || !std::isfinite(number) || number < 0) return bad_size(text, whole > 0);
  const std::string_view unit = trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data())));
  if (unit == "%") {
    if (whole == 0) return bad_size(text, false);
    if (number > 100)
      return Error{ErrorCode::invalid_argument,
                   fmt::format("'{}' is more than there is: accepted are up to 100%", text)};
    return static_cast<std::uint64_t>(static_cast<double>(whole) * number / 100);
  }
  const double each = unit_bytes(unit), bytes = number * each;
  if (each == 0 || bytes >= 0x1p63) return bad_size(text, whole > 0);
  return static_cast<std::uint64_t>(bytes);
}

std::string format_bytes(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, ++unit;
  const int decimals = unit == 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, units[unit]);
}

}  // namespace pooch
