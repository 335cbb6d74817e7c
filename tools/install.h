// Where this program finds the rest of pooch: relative to itself.
#pragma once

#include <filesystem>
#include <optional>

namespace pooch::tools {

struct Install {
  std::optional<std::filesystem::path> library;  // libpooch.so
  std::filesystem::path softgpu_folder;          // need not exist
};

// Looks from the executable's folder: a build folder (../interpose, ../softgpu) or an installation
// (../lib/pooch).
Install find_install();

}  // namespace pooch::tools
