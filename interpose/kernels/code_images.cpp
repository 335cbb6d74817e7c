#include "interpose/kernels/code_images.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>

namespace pooch::interpose {
namespace {

// softgpu/driver/code/fatbin.h describes the layouts.
constexpr std::uint32_t wrapper_magic = 0x466243b1, container_magic = 0xba55ed50;
constexpr std::uint64_t most_bytes = std::uint64_t{256} << 20;  // of copies, together

using Image = std::shared_ptr<const runtime::CodeImage>;

struct Kernel {
  Image image;
  std::string name;
};
struct Images {
  std::mutex mutex;
  std::map<const void*, Image> loaded;    // modules and libraries
  std::map<const void*, Kernel> kernels;  // kernels and functions
  std::uint64_t copied = 0;
};
// Never destroyed: programs load code until they end.
Images& images() {
  static auto* const all = new Images;
  return *all;
}

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

// Behind a wrapper, if it is one.
const std::byte* image_in(const void* code) {
  const auto* const at = static_cast<const std::byte*>(code);
  if (read<std::uint32_t>(at) != wrapper_magic) return at;
  constexpr std::size_t data = 8;
  return read<const std::byte*>(at + data);
}

// 0: no machine code that is known.
std::uint64_t bytes_of(const std::byte* image) {
  if (read<std::uint32_t>(image) == container_magic) {
    constexpr std::size_t head_bytes = 6, content_bytes = 8;
    return read<std::uint16_t>(image + head_bytes) + read<std::uint64_t>(image + content_bytes);
  }
  if (std::memcmp(image, ELFMAG, SELFMAG) != 0) return 0;
  const auto head = read<Elf64_Ehdr>(image);
  const std::uint64_t sections = head.e_shoff + std::uint64_t{head.e_shentsize} * head.e_shnum;
  return std::max(sections, head.e_phoff + std::uint64_t{head.e_phentsize} * head.e_phnum);
}

std::string absolute(const char* file) {
  std::error_code error;
  const auto path = std::filesystem::canonical(file, error);
  return error ? std::string() : path.string();
}

// The mapped file that has these bytes as they are.
struct InFile {
  const std::byte* at;
  std::string file = {};
  std::uint64_t offset = 0;

  static int look(dl_phdr_info* object, std::size_t, void* context) {
    auto& self = *static_cast<InFile*>(context);
    for (int i = 0; i < object->dlpi_phnum; ++i) {
      const auto& part = object->dlpi_phdr[i];
      const auto begin = object->dlpi_addr + part.p_vaddr;
      const auto at = reinterpret_cast<std::uintptr_t>(self.at);
      if (part.p_type != PT_LOAD || at < begin || at >= begin + part.p_filesz) continue;
      const bool program = object->dlpi_name == nullptr || *object->dlpi_name == 0;
      self.file = absolute(program ? "/proc/self/exe" : object->dlpi_name);
      self.offset = part.p_offset + (at - begin);
      return 1;
    }
    return 0;
  }
};

Image image_at(const void* code, std::uint64_t& copied) {
  const std::byte* const image = image_in(code);
  if (image == nullptr) return nullptr;
  const std::uint64_t bytes = bytes_of(image);
  if (bytes == 0) return nullptr;
  InFile found{image};
  dl_iterate_phdr(InFile::look, &found);
  if (!found.file.empty())
    return std::make_shared<const runtime::CodeImage>(runtime::CodeImage{found.file, found.offset, nullptr});
  if (bytes > most_bytes - std::min(copied, most_bytes)) return nullptr;
  copied += bytes;
  return std::make_shared<const runtime::CodeImage>(runtime::CodeImage{
      {}, 0, std::make_shared<const std::string>(reinterpret_cast<const char*>(image), bytes)});
}

}  // namespace

void code_loaded(const void* handle, const void* code) {
  if (code == nullptr) return;
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  if (Image image = image_at(code, all.copied)) all.loaded.insert_or_assign(handle, std::move(image));
}

void code_loaded_from(const void* handle, const char* file) {
  const std::string path = file == nullptr ? "" : absolute(file);
  if (path.empty()) return;
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  all.loaded.insert_or_assign(
      handle, std::make_shared<const runtime::CodeImage>(runtime::CodeImage{path, 0, nullptr}));
}

void code_also_is(const void* handle, const void* of) {
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  if (const auto found = all.loaded.find(of); found != all.loaded.end())
    all.loaded.insert_or_assign(handle, found->second);
  if (const auto found = all.kernels.find(of); found != all.kernels.end())
    all.kernels.insert_or_assign(handle, found->second);
}

void kernel_found(const void* kernel, const void* in, const char* name) {
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(in);
  if (found == all.loaded.end())
    all.kernels.erase(kernel);  // the handle may have been another's
  else
    all.kernels.insert_or_assign(kernel, Kernel{found->second, name});
}

void code_unloaded(const void* handle) {
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(handle);
  if (found == all.loaded.end()) return;
  const Image gone = found->second;
  std::erase_if(all.loaded, [&](const auto& one) { return one.second == gone; });
  std::erase_if(all.kernels, [&](const auto& one) { return one.second.image == gone; });
  if (gone->bytes != nullptr) all.copied -= gone->bytes->size();
}

std::optional<KernelOrigin> origin_of(const void* kernel) {
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  const auto found = all.kernels.find(kernel);
  if (found == all.kernels.end()) return std::nullopt;
  return KernelOrigin{*found->second.image, found->second.name};
}

std::optional<runtime::CodeImage> image_of(const void* handle) {
  Images& all = images();
  const std::lock_guard lock(all.mutex);
  const auto found = all.loaded.find(handle);
  return found == all.loaded.end() ? std::nullopt : std::optional(*found->second);
}

std::string packages_folder() {
  std::string folder;
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* context) {
        const std::string_view name = object->dlpi_name == nullptr ? "" : object->dlpi_name;
        for (const std::string_view packages : {"/site-packages/", "/dist-packages/"}) {
          const auto at = name.find(packages);
          if (at == std::string_view::npos) continue;
          *static_cast<std::string*>(context) = name.substr(0, at + packages.size() - 1);
          return 1;
        }
        return 0;
      },
      &folder);
  return folder;
}

}  // namespace pooch::interpose
