// A cache of which allocation an address lies in: a program's iterations use the same addresses again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tracker/allocations.h"

namespace pooch::tracker {

// Not thread-safe.
class RecentOwners {
 public:
  // As Allocations::containing.
  const Allocation* containing(const Allocations& allocations, Address address) {
    // Addresses differ little in their upper and not at all in their lowest bits: the product's upper bits
    // mix both.
    Entry& entry = entries_[static_cast<std::uint64_t>(address) * 0x9e3779b97f4a7c15 >> (64 - size_bits)];
    if (entry.address != address || entry.changes != allocations.changes())
      entry = {address, allocations.changes(), allocations.containing(address)};
    return entry.owner;
  }

 private:
  static constexpr int size_bits = 12;
  struct Entry {
    Address address{};
    std::uint64_t changes = 0;
    const Allocation* owner = nullptr;  // nullptr where no allocation contains the address
  };
  std::array<Entry, std::size_t{1} << size_bits> entries_;
};

}  // namespace pooch::tracker
