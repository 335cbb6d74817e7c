#include "interpose/hooks/real_symbol.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace pooch::interpose {

namespace {
constinit DlsymFunction known_dlsym = nullptr;
}

DlsymFunction real_dlsym() {
  // Builtins, not std::atomic: this runs before a sanitizer's runtime is ready.
  if (const DlsymFunction known = __atomic_load_n(&known_dlsym, __ATOMIC_ACQUIRE)) return known;
  // By version, because an unversioned look-up would find the preload's own export. x86-64 before and after
  // glibc 2.34, then aarch64.
  constexpr const char* versions[] = {"GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.17"};
  for (const char* version : versions) {
    if (void* found = dlvsym(RTLD_NEXT, "dlsym", version)) {
      const auto function = reinterpret_cast<DlsymFunction>(found);
      __atomic_store_n(&known_dlsym, function, __ATOMIC_RELEASE);
      return function;
    }
  }
  std::fputs("pooch: error: no dlsym of a known version in the C library; unset LD_PRELOAD\n", stderr);
  std::abort();
}

void* loaded_library(const char* soname) {
  return dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
}

}  // namespace pooch::interpose
