#include "softgpu/driver/code/modules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>

#include "softgpu/driver/code/host_kernels.h"
#include "softgpu/driver/code/ptx.h"
#include "softgpu/hash.h"

namespace softgpu {
namespace {

// Parameters are packed at their natural alignment: the largest power of two that divides the size, up to 8.
std::vector<KernelParam> packed(const KernelEntry& entry) {
  std::vector<KernelParam> params;
  std::uint32_t at = 0;
  for (std::uint32_t i = 0; i < entry.param_count; ++i) {
    const std::uint32_t size = entry.param_sizes[i];
    const std::uint32_t alignment = std::min<std::uint32_t>(8, size & (~size + 1));
    if (alignment > 1) at = (at + alignment - 1) / alignment * alignment;
    params.push_back({at, size});
    at += size;
  }
  return params;
}

// What a kernel takes where nothing says it; an estimate.
constexpr std::uint64_t usual_code_bytes = std::uint64_t{64} << 10;

}  // namespace

CUresult Modules::read(const void* code, std::uint64_t available, int capability, Library& library) {
  // Text may be shorter than a magic number.
  if (is_ptx(static_cast<const char*>(code))) {
    const auto entries = ptx_entries(static_cast<const char*>(code));
    if (!entries) return CUDA_ERROR_INVALID_PTX;
    for (const PtxEntry& entry : *entries) {
      if (const KernelEntry* const host = host_kernel(entry)) {
        add(entry.name, {entry.params}, host, library);
      } else {
        fmt::print(stderr, "softgpu: no host function for the kernel {} with its parameters\n", entry.name);
      }
    }
  } else if (FatBinary::recognises(code)) {
    library.fat = FatBinary::open(code, capability, available);
    if (library.fat == nullptr) return CUDA_ERROR_INVALID_IMAGE;
  } else {
    std::uint64_t magic = 0;
    std::memcpy(&magic, code, sizeof magic);
    if (magic != image_magic) return CUDA_ERROR_INVALID_IMAGE;
    const auto& image = *static_cast<const Image*>(code);
    for (std::uint32_t i = 0; i < image.count; ++i) add_image(image.kernels[i], library);
  }
  return CUDA_SUCCESS;
}

Library* Modules::keep(std::unique_ptr<Library> library) {
  Library* const kept = library.get();
  libraries_.emplace(kept, std::move(library));
  return kept;
}

CUresult Modules::load(const void* code, int capability, Library** out) {
  if (code == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto library = std::make_unique<Library>();
  const CUresult status = read(code, std::numeric_limits<std::uint64_t>::max(), capability, *library);
  if (status == CUDA_SUCCESS) *out = keep(std::move(library));
  return status;
}

CUresult Modules::load_file(const char* path, int capability, Library** out) {
  if (path == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::ifstream file(path, std::ios::binary);
  if (!file) return CUDA_ERROR_FILE_NOT_FOUND;
  auto library = std::make_unique<Library>();
  library->file.assign(std::istreambuf_iterator<char>(file), {});
  const char* const code = library->file.c_str();
  const bool whole_head = library->file.size() >= sizeof(std::uint32_t);
  if (!is_ptx(code) && !(whole_head && FatBinary::recognises_file(code))) return CUDA_ERROR_INVALID_IMAGE;
  const CUresult status = read(code, library->file.size(), capability, *library);
  if (status == CUDA_SUCCESS) *out = keep(std::move(library));
  return status;
}

void Modules::add_image(const KernelEntry& entry, Library& library) {
  add(entry.name, {packed(entry)}, &entry, library);
}

Kernel& Modules::add(std::string_view name, DeviceKernel code, const KernelEntry* entry, Library& library) {
  auto kernel = std::make_unique<Kernel>();
  kernel->entry = entry;
  kernel->name_hash = Hash().add(name).value();
  kernel->name = names_.emplace(name).first->c_str();
  kernel->library = &library;
  kernel->function.kernel = kernel.get();
  kernel->params = std::move(code.params);
  kernel->packed_bytes =
      kernel->params.empty() ? 0 : kernel->params.back().offset + kernel->params.back().bytes;
  kernel->code_bytes = code.code_bytes != 0 ? code.code_bytes : usual_code_bytes;
  kernel->local_bytes = std::max(code.local_bytes, entry == nullptr ? 0 : entry->local_bytes);
  handles_.emplace(kernel.get(), kernel.get());
  handles_.emplace(&kernel->function, kernel.get());
  return *library.kernels.insert_or_assign(std::string(name), std::move(kernel)).first->second;
}

Kernel* Modules::find(Library& library, const char* name) {
  if (const auto found = library.kernels.find(name); found != library.kernels.end())
    return found->second.get();
  const DeviceKernel* const code = library.fat == nullptr ? nullptr : library.fat->find(name);
  return code == nullptr ? nullptr : &add(name, *code, host_kernel({name, code->params}), library);
}

const std::map<std::string, std::unique_ptr<Kernel>>& Modules::kernels(Library& library) {
  if (library.fat != nullptr)
    for (const auto& [name, code] : library.fat->kernels()) find(library, name.c_str());
  return library.kernels;
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
