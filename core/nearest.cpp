#include "core/nearest.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

namespace pooch {
namespace {

// Optimal string alignment.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    before_last.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

}  // namespace

std::optional<std::string> nearest(std::string_view typed, std::span<const std::string> names) {
  constexpr std::size_t most = 2;
  std::optional<std::string> found;
  std::size_t least = most + 1;
  for (const std::string& name : names) {
    const std::size_t apart = distance(typed, name);
    if (apart >= least || 2 * apart >= name.size()) continue;
    least = apart;
    found = name;
  }
  return found;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> names) {
  const auto meant = nearest(typed, names);
  return meant ? fmt::format("; did you mean {}?", *meant) : "";
}

}  // namespace pooch
