// A whole file as it lies in memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

#include "core/result.h"

namespace pooch::effects {

class MappedFile {
 public:
  // Error: invalid_argument, the reason without the file's name.
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  // An open file, which stays the caller's.
  static Result<std::shared_ptr<const MappedFile>> map(int file);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::string_view text() const { return {static_cast<const char*>(at_), bytes_}; }

 private:
  MappedFile(void* at, std::size_t bytes) : at_(at), bytes_(bytes) {}

  void* at_;
  std::size_t bytes_;
};

}  // namespace pooch::effects
