// Columns of text for people.
#pragma once

#include <string>
#include <vector>

namespace pooch::tools {

// The first row is the heading; all have as many cells. Columns are as wide as their widest cell; those of
// `left` begin at their left edge, the others end at their right one. No line ends in spaces.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::vector<std::size_t>& left);

}  // namespace pooch::tools
