#include "cuda_folders.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

bool loads(const std::string& library) {
  void* const handle = dlopen(library.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

// One line each.
std::vector<std::string> lines_of(const char* command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command, "r"), pclose);
  std::vector<std::string> lines;
  if (pipe == nullptr) return lines;
  std::array<char, 4096> line{};
  while (std::fgets(line.data(), line.size(), pipe.get()) != nullptr) {
    lines.emplace_back(line.data());
    if (lines.back().ends_with('\n')) lines.back().pop_back();
  }
  return lines;
}

std::vector<fs::path> cuda_folders() {
  std::vector<fs::path> folders;
  std::vector<fs::path> toolkits;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home != nullptr && *home != '\0')
      toolkits.emplace_back(home);
  toolkits.emplace_back("/usr/local/cuda");
  for (const fs::path& toolkit : toolkits)
    for (const char* place : {"lib64", "targets/x86_64-linux/lib", "extras/CUPTI/lib64"})
      folders.push_back(toolkit / place);
  // Wheels are packages of the namespace `nvidia`, each with a folder `lib`.
  std::error_code error;
  for (const fs::path nvidia :
       lines_of("LD_PRELOAD= python3 -c 'import nvidia; print(*nvidia.__path__, sep=\"\\n\")' 2>/dev/null"))
    for (const auto& package : fs::directory_iterator(nvidia, error))
      if (const fs::path lib = package.path() / "lib"; fs::is_directory(lib, error)) folders.push_back(lib);
  return folders;
}

}  // namespace

std::vector<fs::path> folders_of_missing(const std::vector<std::string>& libraries) {
  std::vector<fs::path> folders, candidates;
  for (const std::string& library : libraries) {
    if (loads(library)) continue;
    if (candidates.empty()) candidates = cuda_folders();
    std::error_code error;
    const auto found = std::find_if(candidates.begin(), candidates.end(),
                                    [&](const fs::path& each) { return fs::exists(each / library, error); });
    if (found != candidates.end() && std::find(folders.begin(), folders.end(), *found) == folders.end())
      folders.push_back(*found);
  }
  return folders;
}

}  // namespace pooch::tools
