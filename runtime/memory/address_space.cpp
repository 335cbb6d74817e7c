#include "runtime/memory/address_space.h"

#include <numeric>

#include "core/pages.h"

namespace pooch::runtime {

std::optional<Address> AddressSpace::allocate(std::uint64_t bytes, StreamHandle stream) {
  Free& own = free_[{stream, bytes}];
  if (!own.ranges.empty()) return own.ranges.extract(own.ranges.begin()).value();
  const auto made = make(with_gap(bytes));
  if (!made) return std::exchange(own.latest, std::nullopt);
  streams_.insert_or_assign(*made, stream);
  return made;
}

std::uint64_t AddressSpace::with_gap(std::uint64_t bytes) const {
  if (largest_piece_ == 0) return bytes + gap_;
  const std::vector<std::uint64_t> pieces = pieces_of(bytes, largest_piece_);
  return std::accumulate(pieces.begin(), pieces.end(), gap_);
}

std::optional<Address> AddressSpace::make(std::uint64_t bytes) {
  if (const auto address = cut(bytes)) return address;
  if (bytes_ - used_ < bytes) return std::nullopt;
  used_ += bytes;
  return base_ + (used_ - bytes);
}

std::optional<Address> AddressSpace::cut(std::uint64_t bytes) {
  for (auto it = joined_.begin(); it != joined_.end(); ++it) {
    const auto [address, size] = *it;
    if (size < bytes) continue;
    joined_.erase(it);
    if (size > bytes) joined_.emplace(address + bytes, size - bytes);
    return address;
  }
  return std::nullopt;
}

void AddressSpace::free(Address base, std::uint64_t bytes, StreamHandle stream) {
  const StreamHandle owner = streams_.at(base);
  Free& own = free_[{owner, bytes}];
  const bool by_another = stream != StreamHandle{} && owner != StreamHandle{} && stream != owner;
  if (!by_another) {
    own.ranges.insert(base);
  } else if (const auto earlier = std::exchange(own.latest, base)) {
    own.ranges.insert(*earlier);
  }
}

void AddressSpace::disown(StreamHandle stream) {
  for (auto& [range, owner] : streams_)
    if (owner == stream) owner = StreamHandle{};
  for (auto it = free_.lower_bound({stream, 0}); it != free_.end() && it->first.first == stream;) {
    std::set<Address>& ranges = free_[{StreamHandle{}, it->first.second}].ranges;
    ranges.merge(it->second.ranges);
    if (it->second.latest) ranges.insert(*it->second.latest);
    it = free_.erase(it);
  }
}

void AddressSpace::coalesce(const std::vector<std::pair<Address, std::uint64_t>>& ranges) {
  for (const auto& [address, bytes] : ranges) {
    const auto owner = streams_.find(address);
    if (owner == streams_.end()) continue;
    Free& own = free_[{owner->second, bytes}];
    own.ranges.erase(address);
    if (own.latest == address) own.latest.reset();
    streams_.erase(owner);
    joined_.emplace(address, with_gap(bytes));
  }
  for (auto it = joined_.begin(); it != joined_.end();) {
    const auto next = std::next(it);
    if (next != joined_.end() && it->first + it->second == next->first) {
      it->second += next->second;
      joined_.erase(next);
    } else {
      it = next;
    }
  }
}

}  // namespace pooch::runtime
