#include "interpose/hooks/caller.h"

#include <dlfcn.h>

#include <cstring>
#include <string_view>

namespace pooch::interpose {

Object object_of(const void* address) {
  Dl_info info;
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) return Object::other;
  const char* slash = std::strrchr(info.dli_fname, '/');
  const std::string_view file = slash != nullptr ? slash + 1 : info.dli_fname;
  if (file.starts_with("libcuda.so")) return Object::driver;
  if (file.starts_with("libcudnn")) return Object::cudnn;
  if (file.starts_with("libcublas")) return Object::cublas;
  if (file.starts_with("libnccl")) return Object::nccl;
  return Object::other;
}

[[gnu::hot]] bool called_from_library(const void* return_address) {
  struct Entry {
    const void* address;
    bool library;
  };
  constexpr std::size_t entries = 16;
  [[gnu::tls_model("initial-exec")]] static thread_local Entry cache[entries];
  Entry& entry = cache[(reinterpret_cast<std::uintptr_t>(return_address) >> 2) % entries];
  if (entry.address != return_address) {
    const Object object = object_of(return_address);
    entry = {return_address, object == Object::cudnn || object == Object::cublas || object == Object::nccl};
  }
  return entry.library;
}

}  // namespace pooch::interpose
