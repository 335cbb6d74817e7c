// Preloaded: the N-th allocation that libpooch makes from the host's heap fails, by FAULTS_MALLOC=N, or that
// one and all after it, by N+. FAULTS_MALLOC_PATHS names a file that gets a line for each: the return
// addresses in libpooch by which it came about, as offsets, the innermost first.
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>

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

std::uintptr_t base = 0;
std::atomic<std::uintptr_t> begin{0}, end{0};  // libpooch's code
std::atomic<std::uint64_t> made{0};
int paths = -1;
std::uint64_t fails = 0;
bool stays = false;

int look(dl_phdr_info* info, std::size_t, void*) {
  if (std::strstr(info->dlpi_name, "libpooch.so") == nullptr) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    base = info->dlpi_addr;
    end = info->dlpi_addr + part.p_vaddr + part.p_memsz;
    begin = info->dlpi_addr + part.p_vaddr;
  }
  return 1;
}

bool is_pooch(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return begin != 0 && at >= begin && at < end;
}

// One write: lines of several threads do not mix.
void note_path() {
  void* frames[64];
  const int depth = backtrace(frames, 64);
  char line[64 * 18 + 1];
  int length = 0;
  bool within = false;
  for (int i = 0; i < depth; ++i) {
    if (!is_pooch(frames[i])) {
      if (within) break;
      continue;
    }
    within = true;
    length += std::snprintf(line + length, 18, "%lx ", reinterpret_cast<std::uintptr_t>(frames[i]) - base);
  }
  line[length++] = '\n';
  if (write(paths, line, length) != length) std::abort();
}

bool strikes(const void* caller) {
  if (!is_pooch(caller)) return false;
  if (paths >= 0) note_path();
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
    if (const char* const path = std::getenv("FAULTS_MALLOC_PATHS"); path != nullptr) {
      void* frame = nullptr;
      (void)backtrace(&frame, 1);  // loads what it needs, which takes memory
      paths = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    }
    dl_iterate_phdr(look, nullptr);
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
