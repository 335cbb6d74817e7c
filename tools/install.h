// Where this program finds the rest of pooch: relative to itself.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "core/result.h"

namespace pooch::tools {

struct Install {
  std::optional<std::filesystem::path> library;  // libpooch.so
  std::filesystem::path softgpu_folder;          // need not exist
};

// Looks from the executable's folder: a build folder (../interpose, ../softgpu) or an installation
// (../lib/pooch).
Install find_install();

// Done, or an error where `path` has a space or a colon: they separate the entries of LD_PRELOAD.
Status check_preload(const std::string& path);

// The library's path as LD_PRELOAD takes it.
Result<std::string> library_to_preload(const Install& install);

}  // namespace pooch::tools
