#include "log.h"

#include <fmt/core.h>

#include <array>
#include <cmath>

#include "check.h"

namespace train {

TextLog::TextLog(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_.reset(std::fopen(path.c_str(), "w"));
  if (!file_) throw Failure(Exit::failed, fmt::format("{}: cannot be written", path));
}

void TextLog::write(const std::string& line) {
  if (!file_) return;
  if (std::fprintf(file_.get(), "%s\n", line.c_str()) < 0 || std::fflush(file_.get()) != 0) {
    throw Failure(Exit::failed, fmt::format("{}: cannot be written", path_));
  }
}

std::string exact(double loss) {
  if (std::isnan(loss)) return "nan";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%a", loss);
  return text.data();
}

}  // namespace train
