// Virtual addresses for managed allocations: one reserved arena, so that "is this word one of our pointers"
// is one comparison, and the same sequence of allocations gets the same addresses in every iteration.
//
// A range keeps its size for good (until `coalesce`), and the lowest free range of exactly the size asked for
// is handed out first. Ranges are made in order of address, so what an iteration gets depends only on what
// was live when it began, not on what ran before.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pooch::runtime {

class AddressSpace {
 public:
  AddressSpace(Address base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}

  bool contains(Address a) const { return a >= base_ && a - base_ < bytes_; }
  // A range of exactly `bytes` (a multiple of 2 MiB), or nothing where the arena has none left.
  std::optional<Address> allocate(std::uint64_t bytes);
  // Gives back what `allocate` gave.
  void free(Address base, std::uint64_t bytes);
  // Forgets the sizes of these free ranges and joins neighbours, so that any size can be cut from them. The
  // caller has taken away whatever was mapped in them.
  void coalesce(const std::vector<std::pair<Address, std::uint64_t>>& ranges);

 private:
  std::optional<Address> cut(std::uint64_t bytes);

  Address base_;
  std::uint64_t bytes_;
  std::uint64_t used_ = 0;                              // bytes from `base_` that were ever handed out
  std::map<std::uint64_t, std::set<Address>> by_size_;  // free ranges
  std::map<Address, std::uint64_t> joined_;             // free space without a fixed size
};

}  // namespace pooch::runtime
