#include "install.h"

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

}  // namespace pooch::tools
