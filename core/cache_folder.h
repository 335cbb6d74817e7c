// The folder of what later runs may use: plans, and what was found out about this machine.
//
// What others may write is not trusted, because it decides what becomes of the program's data: the folder and
// every entry must belong to the user or to root, and neither their group nor anybody else may write there.
// No sticky bit makes up for that.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace pooch {

class CacheFolder {
 public:
  // It is made (0700) when the first entry is stored; empty: nothing is ever found or kept.
  explicit CacheFolder(std::string path) : path_(std::move(path)) {}
  const std::string& path() const { return path_; }

  // Error: invalid_argument, the folder is there and not to be trusted; the message names it.
  Status trusted() const;
  // Error: invalid_argument, the reason alone; vendor_status is ENOENT or ENOTDIR where there is no entry.
  Result<std::string> read(const std::string& name) const;
  // Replaces what is there. Error: invalid_argument, the message names the file or folder.
  Status store(const std::string& name, std::string_view text) const;

 private:
  std::string path_;
};

// POOCH_CACHE (`chosen`) made absolute, else $XDG_CACHE_HOME/pooch, else $HOME/.cache/pooch, else empty.
std::string cache_folder(const std::string& chosen);

}  // namespace pooch
