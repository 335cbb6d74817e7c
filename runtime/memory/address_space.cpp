#include "runtime/memory/address_space.h"

#include <algorithm>
#include <numeric>

#include "core/pages.h"

namespace pooch::runtime {

std::optional<Address> AddressSpace::allocate(std::uint64_t bytes, StreamHandle stream,
                                              const AddressHabits::When& when) {
  const AddressHabits::Allocation allocation = habits_.next(when, bytes);
  const auto address =
      habits_.earlier(allocation).empty() ? allocate(bytes, stream) : again(bytes, stream, allocation);
  if (address) habits_.note(allocation, *address);
  return address;
}

std::optional<Address> AddressSpace::again(std::uint64_t bytes, StreamHandle stream,
                                           const AddressHabits::Allocation& of) {
  constexpr std::size_t few = 3;
  const auto earlier = habits_.earlier(of);
  for (const Address address : earlier)
    if (take_free(address, bytes, stream)) return address;
  Free& own = free_[{stream, bytes}];
  const auto nobodys = std::find_if_not(own.ranges.begin(), own.ranges.end(),
                                        [&](Address at) { return habits_.is_anothers(at, of); });
  if (nobodys != own.ranges.end()) return own.ranges.extract(nobodys).value();
  const auto made = earlier.size() <= few ? make(bytes, stream) : std::nullopt;
  return made ? made : allocate(bytes, stream);
}

bool AddressSpace::take_free(Address base, std::uint64_t at_least, StreamHandle stream) {
  const auto made = made_.find(base);
  if (made == made_.end() || made->second.owner != stream || made->second.bytes < at_least) return false;
  return free_[{stream, made->second.bytes}].ranges.erase(base) > 0;
}

std::optional<AddressHabits::Allocation> AddressSpace::made_at(Address base, std::uint64_t bytes,
                                                               std::uint32_t phase,
                                                               std::uint64_t position) const {
  return habits_.at(base, phase, position, bytes);
}

std::optional<Address> AddressSpace::set_aside(std::uint64_t bytes, Address like) {
  const auto owner = made_.find(like);
  const StreamHandle stream = owner == made_.end() ? StreamHandle{} : owner->second.owner;
  const auto made = make(bytes, stream);
  if (made) free_[{stream, bytes}].ranges.insert(*made);
  return made;
}

std::optional<Address> AddressSpace::allocate(std::uint64_t bytes, StreamHandle stream) {
  Free& own = free_[{stream, bytes}];
  if (!own.ranges.empty()) return own.ranges.extract(own.ranges.begin()).value();
  const auto made = make(bytes, stream);
  return made ? made : std::exchange(own.latest, std::nullopt);
}

std::optional<Address> AddressSpace::reuse(std::uint64_t bytes, StreamHandle stream) {
  const std::uint64_t most = 2 * bytes;
  for (auto free = free_.lower_bound({stream, bytes});
       free != free_.end() && free->first.first == stream && free->first.second <= most; ++free)
    if (std::set<Address>& ranges = free->second.ranges; !ranges.empty())
      return ranges.extract(ranges.begin()).value();
  return std::nullopt;
}

std::uint64_t AddressSpace::with_gap(std::uint64_t bytes) const {
  if (largest_piece_ == 0) return bytes + gap_;
  const std::vector<std::uint64_t> pieces = pieces_of(bytes, largest_piece_);
  return std::accumulate(pieces.begin(), pieces.end(), gap_);
}

std::optional<Address> AddressSpace::make(std::uint64_t bytes, StreamHandle stream) {
  const std::uint64_t all = with_gap(bytes);
  auto address = cut(all);
  if (!address && bytes_ - used_ >= all) {
    used_ += all;
    address = base_ + (used_ - all);
  }
  if (address) made_.insert_or_assign(*address, Made{stream, bytes});
  return address;
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

void AddressSpace::free(Address base, StreamHandle stream) {
  const auto [owner, bytes] = made_.at(base);
  Free& own = free_[{owner, bytes}];
  const bool by_another = stream != StreamHandle{} && owner != StreamHandle{} && stream != owner;
  if (!by_another) {
    own.ranges.insert(base);
  } else if (const auto earlier = std::exchange(own.latest, base)) {
    own.ranges.insert(*earlier);
  }
}

void AddressSpace::disown(StreamHandle stream) {
  for (auto& [range, made] : made_)
    if (made.owner == stream) made.owner = StreamHandle{};
  for (auto it = free_.lower_bound({stream, 0}); it != free_.end() && it->first.first == stream;) {
    std::set<Address>& ranges = free_[{StreamHandle{}, it->first.second}].ranges;
    ranges.merge(it->second.ranges);
    if (it->second.latest) ranges.insert(*it->second.latest);
    it = free_.erase(it);
  }
}

void AddressSpace::coalesce(const std::vector<std::pair<Address, std::uint64_t>>& ranges) {
  for (const auto& [address, bytes] : ranges) {
    const auto owner = made_.find(address);
    if (owner == made_.end()) continue;
    Free& own = free_[{owner->second.owner, bytes}];
    own.ranges.erase(address);
    if (own.latest == address) own.latest.reset();
    made_.erase(owner);
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
