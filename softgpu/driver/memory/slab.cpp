#include "softgpu/driver/memory/slab.h"

#include <algorithm>
#include <iterator>

namespace softgpu {
namespace {

std::uint64_t padded(std::uint64_t bytes) {
  return (bytes + slab_alignment - 1) / slab_alignment * slab_alignment;
}

// One release that is ordered after both.
ReleasePtr joined(const ReleasePtr& a, const ReleasePtr& b) {
  if (!a || !b || a == b) return a ? a : b;
  if (a->clock.covers(b->by)) return a;
  if (b->clock.covers(a->by)) return b;
  auto both = std::make_shared<Release>(a->time >= b->time ? *a : *b);
  both->clock.join(a->clock);
  both->clock.join(b->clock);
  both->time = std::max(a->time, b->time);
  return both;
}

}  // namespace

std::optional<SlabBlock> SlabSpace::take(std::uint64_t bytes) {
  const std::uint64_t size = padded(bytes);
  for (auto& [base, slab] : slabs_) {
    for (auto i = slab.free.begin(); i != slab.free.end(); ++i) {
      if (i->second.bytes < size) continue;
      const std::uint64_t offset = i->first;
      const Slab::Free range = i->second;
      slab.free.erase(i);
      if (range.bytes > size) slab.free.emplace(offset + size, Slab::Free{range.bytes - size, range.release});
      return SlabBlock{base + offset, Extent{slab.physical.offset + offset, size}, range.release};
    }
  }
  return std::nullopt;
}

void SlabSpace::add(std::uint64_t base, const Extent& physical) {
  slabs_.emplace(base, Slab{base, physical, {{0, Slab::Free{physical.bytes, nullptr}}}});
}

std::optional<SlabSpace::Emptied> SlabSpace::give(std::uint64_t address, std::uint64_t bytes,
                                                  const ReleasePtr& release) {
  auto owner = std::prev(slabs_.upper_bound(address));
  Slab& slab = owner->second;
  auto at = slab.free.emplace(address - slab.base, Slab::Free{padded(bytes), release}).first;
  const auto merge = [&](auto low, auto high) {
    if (low->first + low->second.bytes != high->first) return false;
    low->second.bytes += high->second.bytes;
    low->second.release = joined(low->second.release, high->second.release);
    slab.free.erase(high);
    return true;
  };
  if (const auto next = std::next(at); next != slab.free.end()) merge(at, next);
  if (at != slab.free.begin()) {
    if (const auto before = std::prev(at); merge(before, at)) at = before;
  }
  if (at->second.bytes != slab.physical.bytes) return std::nullopt;
  const Emptied emptied{slab.base, slab.physical, at->second.release};
  slabs_.erase(owner);
  return emptied;
}

}  // namespace softgpu
