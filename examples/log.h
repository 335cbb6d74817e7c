// Text files that tests compare: one line for each thing that happened.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace train {

class TextLog {
 public:
  // An empty path: nothing is written. Throws Failure.
  explicit TextLog(const std::string& path);

  void write(const std::string& line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

// A loss with its exact bits, so that equal texts mean equal losses.
std::string exact(double loss);

}  // namespace train
