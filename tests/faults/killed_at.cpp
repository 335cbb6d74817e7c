// Preloaded into the planner: kills its process at the N-th of its calls that touch files or start threads,
// by FAULTS_KILL_AT=N. FAULTS_KILL_COUNT names a file for the number of them, written at exit.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

std::atomic<std::uint64_t> made{0};

void step() {
  static const char* const text = std::getenv("FAULTS_KILL_AT");
  const std::uint64_t number = ++made;
  if (text != nullptr && number == std::strtoull(text, nullptr, 10)) kill(getpid(), SIGKILL);
}

struct AtEnd {
  ~AtEnd() {
    const char* const path = std::getenv("FAULTS_KILL_COUNT");
    if (path == nullptr) return;
    const std::uint64_t all = made;
    if (std::FILE* const file = std::fopen(path, "w")) {
      std::fprintf(file, "%llu\n", static_cast<unsigned long long>(all));
      std::fclose(file);
    }
  }
} at_end;

}  // namespace

// A call steps once before it happens and once behind it: files may be there and empty, or whole.
#define KILLABLE(type, name, parameters, ...)                                               \
  extern "C" type name parameters {                                                         \
    static const auto real = reinterpret_cast<type(*) parameters>(dlsym(RTLD_NEXT, #name)); \
    step();                                                                                 \
    auto result = real(__VA_ARGS__);                                                        \
    step();                                                                                 \
    return result;                                                                          \
  }

KILLABLE(std::FILE*, fopen64, (const char* path, const char* mode), path, mode)
KILLABLE(int, fclose, (std::FILE * file), file)
KILLABLE(ssize_t, read, (int file, void* to, std::size_t bytes), file, to, bytes)
KILLABLE(ssize_t, write, (int file, const void* from, std::size_t bytes), file, from, bytes)
KILLABLE(ssize_t, writev, (int file, const iovec* parts, int count), file, parts, count)
KILLABLE(int, rename, (const char* from, const char* to), from, to)
KILLABLE(int, unlink, (const char* path), path)
KILLABLE(int, pthread_create,
         (pthread_t * thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument), thread,
         attributes, run, argument)
