// Stands before libpooch.so in LD_PRELOAD and sees what a library's own runtime sees: which driver functions
// it asks for, and whose address it is given. One line each in the file that LOOKUP_SPY names:
//
//   cuGetProcAddress libcublas.so.13 cuMemAlloc 13000 0 libpooch.so cuMemAlloc_v2
//   dlsym libcublasLt.so.13 cuLaunchKernel 0 0 libpooch.so cuLaunchKernel
//
// A function that was not found is given by nobody, as "- -". Launches leave lines too (launch_spy.h).
#include "tests/preload/launch_spy.h"

#define __CUDA_API_VERSION_INTERNAL 1  // every ABI under its own name
#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

using Dlsym = void* (*)(void*, const char*);

// The next one in line: libpooch's where it is preloaded, which has no version, or the C library's.
Dlsym next_dlsym() {
  static const auto of_libc = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5"));
  static const auto next = reinterpret_cast<Dlsym>(of_libc(RTLD_NEXT, "dlsym"));
  return next;
}

const char* base_name(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

const char* object_of(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? base_name(info.dli_fname) : "-";
}

const char* symbol_at(void* address) {
  Dl_info info;
  const bool named = address != nullptr && dladdr(address, &info) != 0 && info.dli_saddr == address &&
                     info.dli_sname != nullptr;
  return named ? info.dli_sname : "-";
}

void note(const char* road, const char* caller, const char* name, int version, unsigned long long flags,
          void* found) {
  char line[512];
  const int length = std::snprintf(
      line, sizeof line, "%s %s %s %d %llu %s %s\n", road, caller, name[0] != '\0' ? name : "-", version,
      flags, found != nullptr ? object_of(found) : "-", found != nullptr ? symbol_at(found) : "-");
  write_line(line, length);
}

// What libraries would call without this spy.
decltype(cuGetProcAddress)* given = nullptr;
decltype(cuGetProcAddress_v2)* given_v2 = nullptr;

void* spied(const char* name, bool per_thread, void* found);

bool is_per_thread(cuuint64_t flags) {
  return (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
}

CUresult ask(const char* name, void** found, int version, cuuint64_t flags) {
  const CUresult result = given(name, found, version, flags);
  note("cuGetProcAddress", object_of(__builtin_return_address(0)), name, version, flags,
       result == CUDA_SUCCESS ? *found : nullptr);
  if (result == CUDA_SUCCESS) *found = spied(name, is_per_thread(flags), *found);
  return result;
}

CUresult ask_v2(const char* name, void** found, int version, cuuint64_t flags,
                CUdriverProcAddressQueryResult* status) {
  const CUresult result = given_v2(name, found, version, flags, status);
  note("cuGetProcAddress", object_of(__builtin_return_address(0)), name, version, flags,
       result == CUDA_SUCCESS ? *found : nullptr);
  if (result == CUDA_SUCCESS) *found = spied(name, is_per_thread(flags), *found);
  return result;
}

// A look-up of the look-up itself leads back here.
void* spied(const char* asked, bool per_thread, void* found) {
  const char* const name = symbol_at(found);
  if (std::strcmp(name, "cuGetProcAddress") == 0) {
    given = reinterpret_cast<decltype(given)>(found);
    return reinterpret_cast<void*>(&ask);
  }
  if (std::strcmp(name, "cuGetProcAddress_v2") == 0) {
    given_v2 = reinterpret_cast<decltype(given_v2)>(found);
    return reinterpret_cast<void*>(&ask_v2);
  }
  void* const watch = found != nullptr ? watched(asked, per_thread, found) : nullptr;
  return watch != nullptr ? watch : found;
}

}  // namespace

void* next_symbol(void* handle, const char* name) {
  return next_dlsym()(handle, name);
}

void write_line(const char* line, int length) {
  static const int file = open(std::getenv("LOOKUP_SPY"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

extern "C" void* dlsym(void* handle, const char* name) noexcept {
  void* const found = next_dlsym()(handle, name);
  if (std::strncmp(name, "cu", 2) != 0 || name[2] < 'A' || name[2] > 'Z') return found;
  note("dlsym", object_of(__builtin_return_address(0)), name, 0, 0, found);
  const char* const suffix = std::strstr(name, "_ptsz");
  return spied(name, suffix != nullptr, found);
}
