#include "softgpu/driver/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "softgpu/driver/host_kernels.h"
#include "softgpu/driver/ptx.h"

namespace softgpu {
namespace {

// Parameters are packed at their natural alignment: the largest power of two that divides the size, up to 8.
void pack(const KernelEntry& entry, Kernel& kernel) {
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < entry.param_count; ++i) {
    const std::uint32_t size = entry.param_sizes[i];
    const std::uint32_t alignment = std::min<std::uint32_t>(8, size & (~size + 1));
    if (alignment > 1) at = (at + alignment - 1) / alignment * alignment;
    kernel.offsets.push_back(at);
    at += size;
  }
  kernel.packed_bytes = at;
}

}  // namespace

CUresult Modules::load(const void* code, Library** out) {
  if (code == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto library = std::make_unique<Library>();
  // Text may be shorter than a magic number.
  if (is_ptx(static_cast<const char*>(code))) {
    const auto entries = ptx_entries(static_cast<const char*>(code));
    if (!entries) return CUDA_ERROR_INVALID_PTX;
    for (const PtxEntry& entry : *entries) {
      if (const KernelEntry* const host = host_kernel(entry)) {
        add(*host, *library);
      } else {
        fmt::print(stderr, "softgpu: no host function for the kernel {} with its parameters\n", entry.name);
      }
    }
  } else {
    std::uint64_t magic = 0;
    std::memcpy(&magic, code, sizeof magic);
    if (magic != image_magic) return CUDA_ERROR_INVALID_IMAGE;
    const auto& image = *static_cast<const Image*>(code);
    for (std::uint32_t i = 0; i < image.count; ++i) add(image.kernels[i], *library);
  }
  *out = library.get();
  libraries_.emplace(library.get(), std::move(library));
  return CUDA_SUCCESS;
}

void Modules::add(const KernelEntry& entry, Library& library) {
  auto kernel = std::make_unique<Kernel>();
  kernel->entry = &entry;
  kernel->name = names_.insert(entry.name).first->c_str();
  kernel->library = &library;
  kernel->function.kernel = kernel.get();
  pack(entry, *kernel);
  handles_.emplace(kernel.get(), kernel.get());
  handles_.emplace(&kernel->function, kernel.get());
  library.kernels.emplace(entry.name, std::move(kernel));
}

bool Modules::unload(Library* library) {
  const auto found = libraries_.find(library);
  if (found == libraries_.end()) return false;
  for (const auto& [name, kernel] : library->kernels) {
    handles_.erase(kernel.get());
    handles_.erase(&kernel->function);
  }
  libraries_.erase(found);
  return true;
}

Kernel* Modules::kernel(const void* handle) const {
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

}  // namespace softgpu
