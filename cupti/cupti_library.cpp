#include "cupti/cupti_library.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <link.h>

#include <cstdlib>
#include <vector>

namespace pooch::cupti {
namespace {

constexpr const char* soname = "libcupti.so.13";
constexpr const char* runtime_soname = "libcudart.so.13";

// The folder of a library that is loaded; empty where it is not.
std::string folder_of_loaded(const char* name) {
  void* const library = dlopen(name, RTLD_NOLOAD | RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return {};
  link_map* map = nullptr;
  std::string path;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr) path = map->l_name;
  dlclose(library);
  return path.substr(0, path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
}

std::vector<std::string> candidates() {
  std::vector<std::string> paths = {soname};
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const char* const root = std::getenv(variable);
    if (root == nullptr || *root == '\0') continue;
    paths.push_back(fmt::format("{}/extras/CUPTI/lib64/{}", root, soname));
    paths.push_back(fmt::format("{}/lib64/{}", root, soname));
  }
  // Wheels: nvidia/cu13/lib has both libraries; older ones a folder for each.
  if (const std::string runtime = folder_of_loaded(runtime_soname); !runtime.empty()) {
    paths.push_back(fmt::format("{}/{}", runtime, soname));
    paths.push_back(fmt::format("{}/../../cuda_cupti/lib/{}", runtime, soname));
    paths.push_back(fmt::format("{}/../extras/CUPTI/lib64/{}", runtime, soname));
  }
  paths.push_back(fmt::format("/usr/local/cuda/extras/CUPTI/lib64/{}", soname));
  paths.push_back(fmt::format("/usr/local/cuda/lib64/{}", soname));
  return paths;
}

void* open_library() {
  if (void* const loaded = dlopen(soname, RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL)) return loaded;
  for (const std::string& path : candidates()) {
    if (void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  return nullptr;
}

Result<const CuptiLibrary*> load() {
  void* const library = open_library();
  if (library == nullptr) {
    return Error{ErrorCode::not_supported,
                 fmt::format("{} was not found: set CUDA_HOME to the toolkit's folder", soname)};
  }
  static CuptiLibrary cupti;
  const char* missing = nullptr;
#define POOCH_LOAD(name)                                                      \
  cupti.name = reinterpret_cast<decltype(cupti.name)>(dlsym(library, #name)); \
  if (cupti.name == nullptr) missing = #name;
  POOCH_CUPTI_FUNCTIONS(POOCH_LOAD)
#undef POOCH_LOAD
  if (missing != nullptr)
    return Error{ErrorCode::not_supported, fmt::format("{} has no {}: it is too old", soname, missing)};
  std::uint32_t version = 0;
  if (cupti.cuptiGetVersion(&version) != CUPTI_SUCCESS || version / 10000 != CUPTI_API_VERSION / 10000) {
    return Error{ErrorCode::not_supported,
                 fmt::format("{} is of version {}; the records of CUDA 13 are needed", soname, version)};
  }
  return &cupti;
}

}  // namespace

Status CuptiLibrary::check(CUptiResult result, const char* function) const {
  if (result == CUPTI_SUCCESS) return Done{};
  const char* name = nullptr;
  if (cuptiGetResultString(result, &name) != CUPTI_SUCCESS || name == nullptr) name = "?";
  return Error{ErrorCode::not_supported, fmt::format("{} failed: {} ({})", function, name, result)};
}

Result<const CuptiLibrary*> open_cupti() {
  static const auto* const opened = new Result<const CuptiLibrary*>(load());
  return *opened;
}

}  // namespace pooch::cupti
