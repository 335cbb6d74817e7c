#include "softgpu/driver/code/host_kernels.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>

#include "softgpu/driver/model/model.h"

namespace softgpu {
namespace {

namespace fs = std::filesystem;
struct HostKernels {
  std::map<std::string, const KernelEntry*> entries;
  std::vector<const KernelFamily*> families;
};

void add_all(const std::string& path, HostKernels& kernels) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const auto* const image =
      library == nullptr ? nullptr : static_cast<const Image*>(dlsym(library, "softgpu_image"));
  if (image == nullptr || image->magic != image_magic) {
    fmt::print(stderr, "softgpu: {}: {}\n", path, library == nullptr ? dlerror() : "no softgpu_image in it");
    return;
  }
  for (std::uint32_t i = 0; i < image->count; ++i)
    kernels.entries.emplace(image->kernels[i].name, &image->kernels[i]);
  for (std::uint32_t i = 0; i < image->family_count; ++i) kernels.families.push_back(&image->families[i]);
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

const HostKernels& host_kernels() {
  static const auto& kernels = *new HostKernels(read_folder());  // outlives every user
  return kernels;
}

}  // namespace

const KernelEntry* host_kernel(const PtxEntry& entry) {
  const auto& entries = host_kernels().entries;
  const auto found = entries.find(entry.name);
  if (found == entries.end()) return nullptr;
  const KernelEntry& host = *found->second;
  return std::equal(entry.params.begin(), entry.params.end(), host.param_sizes,
                    host.param_sizes + host.param_count,
                    [](const KernelParam& param, std::uint32_t size) { return param.bytes == size; })
             ? &host
             : nullptr;
}

std::string demangled(const char* name) {
  int status = 0;
  char* const text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

const KernelFamily* kernel_family(std::string_view name) {
  constexpr std::string_view returns = "void ";
  if (name.starts_with(returns)) name.remove_prefix(returns.size());
  for (const KernelFamily* family : host_kernels().families)
    if (name.starts_with(family->prefix)) return family;
  return nullptr;
}

}  // namespace softgpu
