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
          fmt::format("'{}' is not a size: accepted are bytes with K, M, G or T (16GiB, 512M, 1073741824){}",
                      text, percent ? " or a share (80%)" : "")};
}

std::string_view trim(std::string_view s) {
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.front()))) s.remove_prefix(1);
  while (!s.empty() && std::isspace(static_cast<unsigned char>(s.back()))) s.remove_suffix(1);
  return s;
}

// The power of 1024 of a unit ("", "B", "K", "KB", "KiB", …), or -1.
int unit_power(std::string_view unit) {
  std::string lower;
  for (char c : unit) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (lower.empty() || lower == "b") return 0;
  constexpr std::string_view letters = "kmgt";
  const auto power = letters.find(lower[0]);
  if (power == std::string_view::npos) return -1;
  const std::string_view rest = std::string_view(lower).substr(1);
  return rest.empty() || rest == "b" || rest == "ib" ? static_cast<int>(power) + 1 : -1;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text, std::uint64_t whole) {
  const std::string_view trimmed = trim(text);
  double number = 0;
  const auto [end, failure] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), number);
  if (failure != std::errc() || !std::isfinite(number) || number < 0) return bad_size(text, whole > 0);
  const std::string_view unit = trim(trimmed.substr(static_cast<std::size_t>(end - trimmed.data())));
  if (unit == "%") {
    if (whole == 0 || number > 100) return bad_size(text, whole > 0);
    return static_cast<std::uint64_t>(static_cast<double>(whole) * number / 100);
  }
  const int power = unit_power(unit);
  const double bytes = std::ldexp(number, 10 * power);
  if (power < 0 || bytes >= 0x1p63) return bad_size(text, whole > 0);
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
