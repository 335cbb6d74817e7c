// The Python side of call sites. Nothing here runs Python code or waits for the interpreter's lock: a hook
// may be called from anywhere, most often by a thread that has just given that lock away.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pooch::interpose {

// Frames of this thread, innermost first, as "file:line function"; empty where no interpreter shows them.
std::vector<std::string> python_frames();

// What `python -X perf` says of the code that it has made for functions.
class PerfMap {
 public:
  // Of this process; empty where there is none.
  static PerfMap read();

  // "file function" of the Python function whose code contains `address`.
  std::optional<std::string> function_at(std::uint64_t address) const;

 private:
  // One line: start and size in hexadecimal, a name.
  void add(const std::string& line);

  struct Code {
    std::uint64_t bytes;
    std::string function;
  };
  std::map<std::uint64_t, Code> by_start_;
};

}  // namespace pooch::interpose
