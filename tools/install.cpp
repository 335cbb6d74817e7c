#include "install.h"

#include <fmt/core.h>

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

fs::path first_existing(std::initializer_list<fs::path> candidates) {
  std::error_code error;
  for (const fs::path& candidate : candidates) {
    if (fs::exists(candidate, error)) return fs::weakly_canonical(candidate, error);
  }
  return {};
}

}  // namespace

Install find_install() {
  std::error_code error;
  const fs::path up = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  Install install;
  if (const fs::path found = first_existing({up / "interpose/libpooch.so", up / "lib/pooch/libpooch.so"});
      !found.empty()) {
    install.library = found;
  }
  install.softgpu_folder = first_existing({up / "softgpu", up / "lib/pooch/softgpu"});
  if (install.softgpu_folder.empty()) install.softgpu_folder = up / "softgpu";
  return install;
}

Status check_preload(const std::string& path) {
  if (path.find_first_of(": ") == std::string::npos) return Done{};
  return Error{
      ErrorCode::invalid_argument,
      fmt::format("LD_PRELOAD cannot carry '{}': move it to a path without spaces and colons", path)};
}

Result<std::string> library_to_preload(const Install& install) {
  if (!install.library) {
    return Error{ErrorCode::invalid_argument,
                 "libpooch.so is neither in ../interpose nor in ../lib/pooch beside this program"};
  }
  std::string path = install.library->string();
  if (const Status fit = check_preload(path); !fit) return fit.error();
  return path;
}

}  // namespace pooch::tools
