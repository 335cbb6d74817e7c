#include "softgpu/driver/space/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

namespace softgpu {
namespace {

// Freed pages stay in the memfd up to this much: their next user would only fault them in again.
constexpr std::uint64_t retained_limit = std::uint64_t{1} << 30;

bool mergeable(const ReleasePtr& a, const ReleasePtr& b) {
  if (a == b) return true;
  // Two frees by one stream: the later one implies the earlier.
  return a && b && a->by.agent == b->by.agent;
}

const ReleasePtr& later(const ReleasePtr& a, const ReleasePtr& b) {
  if (!a || !b) return a ? a : b;
  return a->by.epoch >= b->by.epoch ? a : b;
}

}  // namespace

PhysicalMemory::PhysicalMemory(std::uint64_t bytes, int devices, bool backed, std::uint64_t first)
    : capacity_(bytes / granule * granule),
      first_(first),
      used_(static_cast<std::size_t>(devices)),
      aside_(static_cast<std::size_t>(devices)),
      peak_(static_cast<std::size_t>(devices)) {
  const std::uint64_t all = capacity_ * static_cast<std::uint64_t>(devices);
  if (backed) {
    descriptor_ = memfd_create("softgpu", MFD_CLOEXEC);
    if (descriptor_ < 0 || ftruncate(descriptor_, static_cast<off_t>(all)) != 0) {
      throw std::system_error(errno, std::generic_category(), "softgpu: device memory");
    }
    touched_.resize(all / granule);
  }
  for (std::uint64_t at = 0; at < all; at += capacity_) free_.emplace(first_ + at, Free{capacity_, nullptr});
}

void PhysicalMemory::take(FreeMap::iterator from, std::uint64_t bytes, Claim& claim) {
  const Extent extent{from->first, bytes};
  const Free rest{from->second.bytes - bytes, from->second.release};
  if (rest.release) claim.releases.push_back(rest.release);
  const auto next = free_.erase(from);
  if (rest.bytes > 0) free_.emplace_hint(next, extent.offset + bytes, rest);
  claim.extents.push_back(extent);
  used_[static_cast<std::size_t>(device_of(extent.offset))] += bytes;
}

std::optional<Claim> PhysicalMemory::claim(std::uint64_t bytes, int device, const VectorClock& clock) {
  if (bytes > left(device)) return std::nullopt;
  const std::uint64_t begin = first_ + capacity_ * static_cast<std::uint64_t>(device);
  const auto first = [&] { return free_.lower_bound(begin); };
  const auto last = [&] { return free_.lower_bound(begin + capacity_); };
  const auto ordered = [&](const Free& range) { return !range.release || clock.covers(range.release->by); };
  Claim claim;
  std::uint64_t left = bytes;
  for (const bool any : {false, true}) {
    for (auto i = first(); left > 0 && i != last(); ++i) {
      if (i->second.bytes < left || !(any || ordered(i->second))) continue;
      take(i, left, claim);
      left = 0;
      break;
    }
    // No range is long enough: piece it together, lowest first.
    for (auto i = first(); left > 0 && i != last();) {
      const auto next = std::next(i);
      if (any || ordered(i->second)) {
        const std::uint64_t part = std::min(left, i->second.bytes);
        take(i, part, claim);
        left -= part;
      }
      i = next;
    }
  }
  std::uint64_t& peak = peak_[static_cast<std::size_t>(device)];
  peak = std::max(peak, used(device));
  return claim;
}

PhysicalMemory::FreeMap::iterator PhysicalMemory::join_neighbours(FreeMap::iterator at) {
  if (const auto next = std::next(at); next != free_.end() && at->first + at->second.bytes == next->first &&
                                       device_of(at->first) == device_of(next->first) &&
                                       mergeable(at->second.release, next->second.release)) {
    at->second.bytes += next->second.bytes;
    at->second.release = later(at->second.release, next->second.release);
    free_.erase(next);
  }
  if (at == free_.begin()) return at;
  const auto before = std::prev(at);
  if (before->first + before->second.bytes != at->first || device_of(before->first) != device_of(at->first) ||
      !mergeable(before->second.release, at->second.release)) {
    return at;
  }
  before->second.bytes += at->second.bytes;
  before->second.release = later(before->second.release, at->second.release);
  free_.erase(at);
  return before;
}

void PhysicalMemory::retain(const Extent& extent) {
  if (descriptor_ < 0) return;
  retained_ += extent.bytes;
  if (retained_ <= retained_limit) return;
  for (const auto& [offset, range] : free_) {
    fallocate(descriptor_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(in_file(offset)),
              static_cast<off_t>(range.bytes));
    const auto first = touched_.begin() + static_cast<std::ptrdiff_t>(in_file(offset) / granule);
    std::fill(first, first + static_cast<std::ptrdiff_t>(range.bytes / granule), false);
  }
  retained_ = 0;
}

void PhysicalMemory::release(const std::vector<Extent>& extents, const ReleasePtr& release) {
  for (const Extent& extent : extents) {
    used_[static_cast<std::size_t>(device_of(extent.offset))] -= extent.bytes;
    join_neighbours(free_.emplace(extent.offset, Free{extent.bytes, release}).first);
    retain(extent);
  }
}

bool PhysicalMemory::set_aside(std::uint64_t bytes, int device) {
  if (bytes > capacity_ - used(device)) return false;
  aside_[static_cast<std::size_t>(device)] = bytes;
  return true;
}

void PhysicalMemory::touch(std::uint64_t begin, std::uint64_t end) {
  if (touched_.empty()) return;
  for (std::uint64_t at = in_file(begin) / granule; at * granule < in_file(end); ++at) touched_[at] = true;
}

bool PhysicalMemory::touched(const Extent& extent) const {
  const std::uint64_t begin = in_file(extent.offset);
  for (std::uint64_t at = begin / granule; at * granule < begin + extent.bytes; ++at) {
    if (!touched_[at]) return false;
  }
  return true;
}

void PhysicalMemory::settle(const VectorClock& host) {
  for (auto i = free_.begin(); i != free_.end(); ++i) {
    if (!i->second.release || !host.covers(i->second.release->by)) continue;
    i->second.release = nullptr;
    i = join_neighbours(i);
  }
}

}  // namespace softgpu
