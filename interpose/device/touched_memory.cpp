#include "interpose/device/touched_memory.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

#include "core/host_memory.h"

namespace pooch::interpose {
namespace {

constexpr std::size_t large_page = std::size_t{2} << 20;

std::size_t whole(std::size_t bytes) {
  return (bytes + large_page - 1) / large_page * large_page;
}

void touch(std::byte* from, std::size_t bytes, std::size_t page) {
  for (std::size_t at = 0; at < bytes; at += page)
    *static_cast<volatile std::byte*>(from + at) = std::byte{0};
}

// Threads inherit where their memory is to lie, and which signals are not for them.
void touch_by_many(std::byte* memory, std::size_t bytes) {
  constexpr std::size_t most_threads = 8, least_each = 16 * large_page;
  const std::size_t threads = std::clamp<std::size_t>(
      std::min<std::size_t>(std::thread::hardware_concurrency() / 2, bytes / least_each), 1, most_threads);
  const std::size_t part = bytes / large_page / threads * large_page;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::vector<std::jthread> others;
  std::size_t begun = 0;
  try {
    for (; begun + 1 < threads; ++begun) others.emplace_back(touch, memory + begun * part, part, page);
  } catch (const std::system_error&) {
    // No more threads are to be had: the rest is this one's.
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  touch(memory + begun * part, bytes - begun * part, page);
}

}  // namespace

void* map_touched(std::size_t bytes) {
  const std::size_t size = whole(bytes), with_edges = size + large_page;
  // Who writes to memory that is not there is ended, where a driver would only refuse.
  const std::size_t spare = std::size_t{1} << 30;  // for whoever else needs some meanwhile
  if (unused_host_memory() < size + spare) return nullptr;
  void* const mapped = mmap(nullptr, with_edges, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(mapped);
  const std::size_t before =
      whole(reinterpret_cast<std::uintptr_t>(mapped)) - reinterpret_cast<std::uintptr_t>(mapped);
  if (before > 0) munmap(begin, before);
  if (before < large_page) munmap(begin + before + size, large_page - before);
  std::byte* const memory = begin + before;
  if (madvise(memory, size, MADV_DONTFORK) != 0) {
    munmap(memory, size);
    return nullptr;
  }
  // Where these are refused, pages are small, or dumps large.
  (void)madvise(memory, size, MADV_HUGEPAGE);
  (void)madvise(memory, size, MADV_DONTDUMP);
  touch_by_many(memory, size);
  return memory;
}

void unmap_touched(void* memory, std::size_t bytes) {
  munmap(memory, whole(bytes));
}

}  // namespace pooch::interpose
