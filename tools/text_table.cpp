#include "text_table.h"

#include <fmt/core.h>

#include <algorithm>

namespace pooch::tools {

std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::size_t>& left) {
  if (rows.empty()) return {};
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool from_left = std::find(left.begin(), left.end(), i) != left.end();
      line +=
          from_left ? fmt::format("{:<{}}  ", row[i], widths[i]) : fmt::format("{:>{}}  ", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace pooch::tools
