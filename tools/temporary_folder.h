// A folder for the files of one command, removed with it. A killed command cannot: the next one finds what it
// left.
#pragma once

#include <filesystem>
#include <utility>

#include "core/files.h"
#include "core/result.h"

namespace pooch::tools {

class TemporaryFolder {
 public:
  // Error: internal, none can be made.
  static Result<TemporaryFolder> make();
  ~TemporaryFolder();
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : whole_(std::exchange(other.whole_, {})), lock_(std::move(other.lock_)) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;

  std::filesystem::path path() const { return whole_ / "files"; }

 private:
  TemporaryFolder(std::filesystem::path whole, OpenFile lock)
      : whole_(std::move(whole)), lock_(std::move(lock)) {}

  std::filesystem::path whole_;  // empty: handed on
  OpenFile lock_;                // of whole_: somebody lives who needs it
};

}  // namespace pooch::tools
