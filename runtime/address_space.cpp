#include "runtime/address_space.h"

namespace pooch::runtime {

std::optional<Address> AddressSpace::allocate(std::uint64_t bytes) {
  if (auto bucket = by_size_.find(bytes); bucket != by_size_.end() && !bucket->second.empty())
    return bucket->second.extract(bucket->second.begin()).value();
  if (auto address = cut(bytes)) return address;
  if (bytes_ - used_ < bytes) return std::nullopt;
  const Address made = base_ + used_;
  used_ += bytes;
  return made;
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

void AddressSpace::free(Address base, std::uint64_t bytes) {
  by_size_[bytes].insert(base);
}

void AddressSpace::coalesce(const std::vector<std::pair<Address, std::uint64_t>>& ranges) {
  for (const auto& [address, bytes] : ranges) {
    by_size_[bytes].erase(address);
    joined_.emplace(address, bytes);
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
