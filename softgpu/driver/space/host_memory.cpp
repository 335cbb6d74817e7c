#include "softgpu/driver/space/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace softgpu {
namespace {

constexpr std::uint64_t page = 4096;
std::uint64_t whole_pages(std::uint64_t bytes) {
  return (bytes + page - 1) / page * page;
}

}  // namespace

void HostMemory::insert(const Pinned& pinned) {
  pinned_.emplace(pinned.base, pinned);
  (void)take(whole_pages(pinned.bytes));
}

std::uint64_t HostMemory::allocate(std::uint64_t bytes, unsigned flags) {
  const std::uint64_t size = whole_pages(bytes);
  if (size < bytes || size > limit_ - used_) return 0;
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto base = reinterpret_cast<std::uint64_t>(at);
  insert(Pinned{base, bytes, flags, false, next_id_++});
  return base;
}

HostMemory::Add HostMemory::add_registered(std::uint64_t base, std::uint64_t bytes, unsigned flags) {
  const auto next = pinned_.lower_bound(base);
  if (next != pinned_.end() && next->first < base + bytes) return Add::overlaps;
  if (next != pinned_.begin() && std::prev(next)->second.base + std::prev(next)->second.bytes > base) {
    return Add::overlaps;
  }
  if (whole_pages(bytes) > limit_ - used_) return Add::exhausted;
  insert(Pinned{base, bytes, flags, true, next_id_++});
  return Add::added;
}

bool HostMemory::take(std::uint64_t bytes) {
  if (bytes > limit_ - used_) return false;
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

void HostMemory::remove(std::uint64_t base) {
  const auto at = pinned_.find(base);
  used_ -= whole_pages(at->second.bytes);
  if (!at->second.registered) munmap(reinterpret_cast<void*>(base), whole_pages(at->second.bytes));
  pinned_.erase(at);
}

const Pinned* HostMemory::find(std::uint64_t address) const {
  auto i = pinned_.upper_bound(address);
  if (i == pinned_.begin()) return nullptr;
  --i;
  return address < i->second.base + i->second.bytes ? &i->second : nullptr;
}

const Pinned* HostMemory::starts(std::uint64_t address) const {
  const auto i = pinned_.find(address);
  return i == pinned_.end() ? nullptr : &i->second;
}

}  // namespace softgpu
