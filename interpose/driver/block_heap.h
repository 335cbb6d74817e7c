// Small device memory in the order of one stream: blocks cut from slabs, handed out again as soon as they
// were given back, last in, first out among those of one size. Where none fits, one is cut from what is left
// of a slab; neighbours are joined again where there is nothing left to cut, once an eighth of all memory was
// given back since they last were.
//
// Knows addresses alone. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace pooch::interpose {

class BlockHeap {
 public:
  static constexpr std::uint64_t unit = 512;  // sizes and addresses are multiples of it
  static constexpr std::uint64_t slab = 2 * MiB, largest = slab / 8;

  // `bytes` up to `largest`. Nothing: a slab is needed.
  std::optional<Address> take(std::uint64_t bytes);
  // `bytes` as they were asked for.
  void give(Address block, std::uint64_t bytes);
  void add_slab(Address slab);
  // Forgets the slabs that are idle as a whole.
  std::vector<Address> release();
  bool contains(Address address) const;
  bool empty() const { return slabs_.empty(); }
  std::uint64_t idle_bytes() const { return idle_; }

 private:
  using Piece = std::pair<Address, std::uint64_t>;  // idle bytes within one slab

  std::optional<Address> cut(std::uint64_t bytes);
  void join();

  std::vector<Address> slabs_;
  std::vector<std::vector<Address>> of_size_;  // idle blocks, by units
  std::vector<Piece> pieces_;                  // idle and of no particular size
  std::uint64_t idle_ = 0;                     // bytes of both
  std::uint64_t given_ = 0;                    // bytes given back since pieces were joined
};

}  // namespace pooch::interpose
