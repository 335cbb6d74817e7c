#include "interpose/hooks/libraries.h"

#include <cublas_v2.h>
#include <cudnn.h>
#include <dlfcn.h>

#include <iterator>

#include "core/log.h"
#include "interpose/hooks/real_symbol.h"

#define POOCH_TEXT_OF(x) #x
#define POOCH_TEXT(x) POOCH_TEXT_OF(x)

namespace pooch::interpose {
namespace {

constexpr const char* sonames[] = {
    "libcuda.so.1",
    "libcudnn.so." POOCH_TEXT(CUDNN_MAJOR),
    "libcublas.so." POOCH_TEXT(CUBLAS_VER_MAJOR),
    "libcublasLt.so." POOCH_TEXT(CUBLAS_VER_MAJOR),
    "libnccl.so.2",
};

constinit std::atomic<void*> handles[std::size(sonames)] = {};
constinit std::atomic<bool> reported[std::size(sonames)] = {};

void* handle_of(Library library) {
  auto& slot = handles[static_cast<int>(library)];
  if (void* known = slot.load(std::memory_order_acquire)) return known;
  void* found = loaded_library(sonames[static_cast<int>(library)]);
  if (found != nullptr) slot.store(found, std::memory_order_release);
  return found;
}

}  // namespace

void* find_real(Library library, const char* name) {
  // A handle, because RTLD_NEXT does not see a library that was opened RTLD_LOCAL.
  if (void* handle = handle_of(library)) {
    if (void* found = real_dlsym()(handle, name)) return found;
  }
  return real_dlsym()(RTLD_NEXT, name);
}

void* resolve(Library library, const char* name) {
  if (void* found = find_real(library, name)) return found;
  const char* soname = sonames[static_cast<int>(library)];
  if (handle_of(library) != nullptr) {
    log::error("{} has no {}: the call fails; is it an older version than pooch was built for?", soname,
               name);
  } else if (!reported[static_cast<int>(library)].exchange(true)) {
    log::error("{} was called but {} is not loaded: install it or put its folder on LD_LIBRARY_PATH", name,
               soname);
  }
  return nullptr;
}

}  // namespace pooch::interpose
