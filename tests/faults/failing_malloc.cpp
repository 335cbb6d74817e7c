// Preloaded: the N-th allocation that libpooch makes from the host's heap fails, by FAULTS_MALLOC=N, or that
// one and all after it, by N+. FAULTS_MALLOC_COUNT names a file for the number of them, written at exit.
#include <link.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t bytes);                     // NOLINT: glibc's
void* __libc_calloc(std::size_t count, std::size_t bytes);  // NOLINT
void* __libc_realloc(void* old, std::size_t bytes);         // NOLINT
}

namespace {

std::atomic<std::uintptr_t> begin{0}, end{0};  // libpooch's code
std::atomic<std::uint64_t> made{0};
std::uint64_t fails = 0;
bool stays = false;

int look(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "libpooch.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
    begin = info->dlpi_addr + part.p_vaddr;
  }
  return 1;
}

bool strikes(const void* caller) {
  const auto at = reinterpret_cast<std::uintptr_t>(caller);
  if (begin == 0 || at < begin || at >= end) return false;
  const std::uint64_t number = ++made;
  if (fails == 0 || number < fails || (number > fails && !stays)) return false;
  errno = ENOMEM;
  return true;
}

struct AtStart {
  AtStart() {
    const char* const text = std::getenv("FAULTS_MALLOC");
    if (text != nullptr) fails = std::strtoull(text, nullptr, 10);
    stays = text != nullptr && text[std::strlen(text) - 1] == '+';
    dl_iterate_phdr(look, nullptr);
  }
  ~AtStart() {
    const char* const path = std::getenv("FAULTS_MALLOC_COUNT");
    if (path == nullptr || begin == 0) return;
    if (std::FILE* const file = std::fopen(path, "w")) {
      std::fprintf(file, "%llu\n", static_cast<unsigned long long>(made.load()));
      std::fclose(file);
    }
  }
} at_start;

}  // namespace

extern "C" {

void* malloc(std::size_t bytes) {
  return strikes(__builtin_return_address(0)) ? nullptr : __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  return strikes(__builtin_return_address(0)) ? nullptr : __libc_calloc(count, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  return strikes(__builtin_return_address(0)) ? nullptr : __libc_realloc(old, bytes);
}

}  // extern "C"
