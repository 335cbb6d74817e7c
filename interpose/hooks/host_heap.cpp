// libpooch's operator new (core/host_heap.h). The C++ runtime is inside, so that the program's own is
// another.
#include "core/host_heap.h"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string_view>

namespace {

// A call on its way may describe a whole iteration, at a few hundred bytes for each op.
constexpr std::size_t reserve_bytes = std::size_t{64} << 20, first_calls_bytes = std::size_t{512} << 10;
alignas(std::max_align_t) constinit std::byte reserve[reserve_bytes];  // takes no memory until it is touched
constinit std::atomic<std::size_t> taken{0};

// Nothing here may allocate.
void say(std::string_view line) {
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

// What was taken is not given back: this is for the way out.
void* take(std::size_t bytes) {
  constexpr std::size_t unit = alignof(std::max_align_t);
  if (bytes > reserve_bytes || pooch::without_heap_reserve) return nullptr;
  const std::size_t rounded = (bytes + unit - 1) / unit * unit;
  const std::size_t at = taken.fetch_add(rounded);
  if (at == 0) say("pooch: warning: the host has no memory left; going on with a small reserve\n");
  if (at + rounded > first_calls_bytes && !pooch::host_heap_spent_flag.exchange(true))
    say("pooch: error: the host has no memory left: from here on calls are refused as out of memory\n");
  return at + rounded <= reserve_bytes ? reserve + at : nullptr;
}

bool in_reserve(const void* memory) {
  const auto at = reinterpret_cast<std::uintptr_t>(memory), base = reinterpret_cast<std::uintptr_t>(reserve);
  return at >= base && at < base + reserve_bytes;
}

}  // namespace

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  void* const memory = std::malloc(bytes == 0 ? 1 : bytes);
  return memory != nullptr ? memory : take(bytes);
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}

void operator delete(void* memory) noexcept {
  if (!in_reserve(memory)) std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  operator delete(memory);
}
