// The folder with what later runs reuse: plans, and what was found out about this machine.
//
// Files that other users can write are not trusted, because plans control the program's data: the folder and
// every entry must belong to the user or to root, and neither group nor others may write there. A sticky bit
// does not change that.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace pooch {

class CacheFolder {
 public:
  // It is created (0700) when the first entry is stored. An empty path: nothing is ever found or kept.
  explicit CacheFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // Error: invalid_argument, the folder exists and is not trusted; the message names it.
  Status trusted() const;
  // Error: invalid_argument, the message is the reason alone; vendor_status is ENOENT or ENOTDIR if there is
  // no entry.
  Result<std::string> read(const std::string& name) const;
  // Replaces an existing entry. Error: invalid_argument, the message names the file or folder.
  Status store(const std::string& name, std::string_view text) const;

 private:
  std::string path_;
};

// POOCH_CACHE (`chosen`) made absolute, else $XDG_CACHE_HOME/pooch, else $HOME/.cache/pooch, else empty.
std::string cache_folder(const std::string& chosen);

}  // namespace pooch
