#include "softgpu/driver/host_kernels.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "softgpu/driver/model.h"

namespace softgpu {
namespace {

namespace fs = std::filesystem;
using HostKernels = std::map<std::string, const KernelEntry*>;

void add_all(const std::string& path, HostKernels& kernels) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* const image =
      library == nullptr ? nullptr : static_cast<const Image*>(dlsym(library, "softgpu_image"));
  if (image == nullptr || image->magic != image_magic) {
    fmt::print(stderr, "softgpu: {}: {}\n", path, library == nullptr ? dlerror() : "no softgpu_image in it");
    return;
  }
  for (std::uint32_t i = 0; i < image->count; ++i)
    kernels.emplace(image->kernels[i].name, &image->kernels[i]);
}

HostKernels read_folder() {
  HostKernels kernels;
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const auto& file : fs::directory_iterator(folder_of("SOFTGPU_KERNELS", "kernels"), ignored))
    if (file.path().extension() == ".so") paths.push_back(file.path());
  std::sort(paths.begin(), paths.end());  // of two with one name the first
  for (const std::string& path : paths) add_all(path, kernels);
  return kernels;
}

}  // namespace

const KernelEntry* host_kernel(const PtxEntry& entry) {
  static const auto& kernels = *new HostKernels(read_folder());  // outlives every user
  const auto found = kernels.find(entry.name);
  if (found == kernels.end()) return nullptr;
  const KernelEntry& host = *found->second;
  return std::equal(entry.params.begin(), entry.params.end(), host.param_sizes,
                    host.param_sizes + host.param_count,
                    [](const KernelParam& param, std::uint32_t size) { return param.bytes == size; })
             ? &host
             : nullptr;
}

}  // namespace softgpu
