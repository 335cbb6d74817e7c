#include "softgpu/driver/space/address.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace softgpu {
namespace {

constexpr std::uint64_t arena_bytes = std::uint64_t{64} << 30;
// An H200's driver rounds an address that is asked for up to that.
constexpr std::uint64_t asked_granule = std::uint64_t{32} << 20;

std::uint64_t round_up(std::uint64_t value, std::uint64_t to) {
  return (value + to - 1) / to * to;
}

void* pages(std::uint64_t address) {
  return reinterpret_cast<void*>(address);
}

// Inaccessible addresses; 0 where there are none.
std::uint64_t reserve_pages(std::uint64_t bytes, std::uint64_t alignment, std::uint64_t hint) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (hint != 0 && hint % alignment == 0) {
    // A hint, not MAP_FIXED_NOREPLACE: ThreadSanitizer's mmap replaces addresses that it keeps for itself by
    // 0, and fixed that would be page 0.
    void* at = mmap(pages(hint), bytes, PROT_NONE, flags, -1, 0);
    if (at == pages(hint)) return hint;
    if (at != MAP_FAILED) munmap(at, bytes);
  }
  const std::uint64_t whole = bytes + alignment;
  void* at = mmap(nullptr, whole, PROT_NONE, flags, -1, 0);
  if (at == MAP_FAILED) return 0;
  const auto start = reinterpret_cast<std::uint64_t>(at);
  const std::uint64_t base = round_up(start, alignment);
  if (base > start) munmap(at, base - start);
  if (const std::uint64_t tail = start + whole - (base + bytes); tail > 0) munmap(pages(base + bytes), tail);
  return base;
}

// The entry of an interval map (base -> bytes) that contains `address`.
std::map<std::uint64_t, std::uint64_t>::const_iterator containing(
    const std::map<std::uint64_t, std::uint64_t>& map, std::uint64_t address) {
  auto i = map.upper_bound(address);
  if (i == map.begin()) return map.end();
  --i;
  return address < i->first + i->second ? i : map.end();
}

}  // namespace

Object& AddressMap::add(Object object) {
  object.id = next_id_++;
  unearth(object.base, object.end());
  const std::uint64_t base = object.base;
  return objects_.insert_or_assign(base, std::move(object)).first->second;
}

void AddressMap::remove(Object& object, bool freed, const Access& by) {
  bury(object.base, object.end(), Tombstone{object.end(), freed, by});
  objects_.erase(object.base);
}

Object* AddressMap::before(std::uint64_t address) {
  const auto i = objects_.upper_bound(address);
  return i == objects_.begin() ? nullptr : &std::prev(i)->second;
}

Object* AddressMap::find(std::uint64_t address) {
  Object* object = before(address);
  return object != nullptr && address < object->end() ? object : nullptr;
}

Object* AddressMap::starts(std::uint64_t address) {
  const auto i = objects_.find(address);
  return i == objects_.end() ? nullptr : &i->second;
}

Object* AddressMap::after(const Object& object) {
  return starts(object.end());
}

bool AddressMap::any_in(std::uint64_t begin, std::uint64_t end) const {
  auto i = objects_.lower_bound(begin);
  if (i != objects_.end() && i->first < end) return true;
  return i != objects_.begin() && std::prev(i)->second.end() > begin;
}

const Tombstone* AddressMap::tombstone(std::uint64_t address) const {
  auto i = tombstones_.upper_bound(address);
  if (i == tombstones_.begin()) return nullptr;
  --i;
  return address < i->second.end ? &i->second : nullptr;
}

std::size_t AddressMap::count_in(std::uint64_t begin, std::uint64_t end) const {
  return static_cast<std::size_t>(std::distance(objects_.lower_bound(begin), objects_.lower_bound(end)));
}

void AddressMap::unearth(std::uint64_t begin, std::uint64_t end) {
  auto i = tombstones_.lower_bound(begin);
  if (i != tombstones_.begin()) {
    const auto before = std::prev(i);
    const Tombstone whole = before->second;
    if (whole.end > begin) {
      before->second.end = begin;
      if (whole.end > end) tombstones_.emplace(end, whole);
    }
  }
  while (i != tombstones_.end() && i->first < end) {
    const Tombstone whole = i->second;
    i = tombstones_.erase(i);
    if (whole.end > end) i = tombstones_.emplace(end, whole).first;
  }
}

void AddressMap::bury(std::uint64_t begin, std::uint64_t end, const Tombstone& what) {
  unearth(begin, end);
  tombstones_.emplace(begin, what);
}

std::optional<std::uint64_t> AddressMap::reserve(std::uint64_t bytes, std::uint64_t alignment,
                                                 std::uint64_t hint) {
  alignment = std::max(alignment, granule);
  const bool low = hint == 0 && next_low_ != 0;
  const std::uint64_t wanted = low ? round_up(next_low_, alignment) : round_up(hint, asked_granule);
  const std::uint64_t base = reserve_pages(bytes, alignment, wanted);
  if (low && base == round_up(next_low_, alignment)) next_low_ = base + bytes;
  if (base == 0) return std::nullopt;
  reservations_.emplace(base, bytes);
  return base;
}

bool AddressMap::unreserve(std::uint64_t base, std::uint64_t bytes) {
  const auto i = reservations_.find(base);
  if (i == reservations_.end() || i->second != bytes || any_in(base, base + bytes)) return false;
  munmap(pages(base), bytes);
  unearth(base, base + bytes);
  reservations_.erase(i);
  return true;
}

bool AddressMap::reserved(std::uint64_t base, std::uint64_t bytes) const {
  const auto i = containing(reservations_, base);
  return i != reservations_.end() && bytes <= i->first + i->second - base;
}

std::optional<Extent> AddressMap::reservation(std::uint64_t address) const {
  const auto i = containing(reservations_, address);
  if (i == reservations_.end()) return std::nullopt;
  return Extent{i->first, i->second};
}

std::optional<std::uint64_t> AddressMap::take(std::uint64_t bytes) {
  auto fits =
      std::find_if(free_.begin(), free_.end(), [&](const auto& range) { return range.second >= bytes; });
  if (fits == free_.end()) {
    const std::uint64_t region = std::max(arena_bytes, round_up(bytes, granule));
    const std::uint64_t base = reserve_pages(region, granule, 0);
    if (base == 0) return std::nullopt;
    arenas_.emplace(base, region);
    fits = free_.emplace(base, region).first;
  }
  const auto [base, size] = *fits;
  free_.erase(fits);
  if (size > bytes) free_.emplace(base + bytes, size - bytes);
  return base;
}

void AddressMap::give(std::uint64_t base, std::uint64_t bytes) {
  auto at = free_.emplace(base, bytes).first;
  if (const auto next = std::next(at); next != free_.end() && base + bytes == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

bool AddressMap::device(std::uint64_t address) const {
  return containing(reservations_, address) != reservations_.end() ||
         containing(arenas_, address) != arenas_.end();
}

bool map_object(const PhysicalMemory& physical, const Object& object) {
  std::uint64_t at = object.base;
  for (const Extent& extent : object.extents) {
    const int access = (object.readable || object.host_readable ? PROT_READ : 0) |
                       (object.writable || object.host_writable ? PROT_WRITE : 0);
    // Pages that exist cost less together than fault by fault.
    const int flags = MAP_SHARED | MAP_FIXED | (physical.touched(extent) ? MAP_POPULATE : 0);
    void* where = mmap(pages(at), extent.bytes, access, flags, physical.descriptor(),
                       static_cast<off_t>(physical.in_file(extent.offset)));
    if (where == MAP_FAILED) return false;
    at += extent.bytes;
  }
  return true;
}

void unmap_object(const Object& object) {
  mmap(pages(object.base), object.padded_end() - object.base, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace softgpu
