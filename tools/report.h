// What `pooch run` says afterwards.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "child.h"
#include "core/files.h"
#include "core/summary.h"

namespace pooch::tools {

// The file of --summary, tried before the run so that a wrong path costs nothing.
class SummaryFile {
 public:
  explicit SummaryFile(const std::optional<std::string>& path);

  bool good() const { return good_; }
  // False where it could not be written. True without a file.
  bool write(const std::string& text);

 private:
  std::string path_;                // empty: there is none
  std::optional<OutputFile> file_;  // where it is a pipe, say, which has one reader
  bool good_ = true;
};

// A few lines for people.
std::string summary_text(const Summary& summary);

// The summaries that a command's processes left in the report's folder: ("", …) for its own, and by the names
// of their folders ("rank-1", "process-4711") those of others.
std::vector<std::pair<std::string, std::filesystem::path>> summaries_in(const std::filesystem::path& folder);

// Reads what the library left, prints it on stderr and copies it: "null" where there is none, an object by
// names where several processes left one. False, after a line, where that failed; a command without CUDA is
// no failure.
bool report_run(const std::filesystem::path& folder, const ChildEnd& end, SummaryFile& copy);

}  // namespace pooch::tools
