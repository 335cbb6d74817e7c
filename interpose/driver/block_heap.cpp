#include "interpose/driver/block_heap.h"

#include <algorithm>

namespace pooch::interpose {

[[gnu::hot]] std::optional<Address> BlockHeap::take(std::uint64_t bytes) {
  const std::uint64_t units = round_up(bytes, unit) / unit;
  if (units < of_size_.size() && !of_size_[units].empty()) {
    const Address block = of_size_[units].back();
    of_size_[units].pop_back();
    idle_ -= units * unit;
    return block;
  }
  if (const auto block = cut(units * unit)) return block;
  if (given_ * 8 < slabs_.size() * slab) return std::nullopt;
  join();
  return cut(units * unit);
}

[[gnu::hot]] void BlockHeap::give(Address block, std::uint64_t bytes) {
  const std::uint64_t units = round_up(bytes, unit) / unit;
  if (units >= of_size_.size()) of_size_.resize(units + 1);
  of_size_[units].push_back(block);
  idle_ += units * unit;
  given_ += units * unit;
}

void BlockHeap::add_slab(Address at) {
  slabs_.insert(std::upper_bound(slabs_.begin(), slabs_.end(), at), at);
  pieces_.emplace_back(at, slab);
  idle_ += slab;
}

std::vector<Address> BlockHeap::release() {
  join();
  std::vector<Address> gone;
  std::erase_if(pieces_, [&](const Piece& piece) {
    if (piece.second == slab) gone.push_back(piece.first);
    return piece.second == slab;
  });
  std::erase_if(slabs_, [&](Address one) { return std::find(gone.begin(), gone.end(), one) != gone.end(); });
  idle_ -= gone.size() * slab;
  return gone;
}

bool BlockHeap::contains(Address address) const {
  const auto behind = std::upper_bound(slabs_.begin(), slabs_.end(), address);
  return behind != slabs_.begin() && address - *std::prev(behind) < slab;
}

// From the smallest piece that has room.
std::optional<Address> BlockHeap::cut(std::uint64_t bytes) {
  auto best = pieces_.end();
  for (auto piece = pieces_.begin(); piece != pieces_.end(); ++piece)
    if (piece->second >= bytes && (best == pieces_.end() || piece->second < best->second)) best = piece;
  if (best == pieces_.end()) return std::nullopt;
  const Address block = best->first;
  if (best->second > bytes) {
    *best = {block + bytes, best->second - bytes};
  } else {
    *best = pieces_.back();
    pieces_.pop_back();
  }
  idle_ -= bytes;
  return block;
}

void BlockHeap::join() {
  for (std::size_t units = 0; units < of_size_.size(); ++units) {
    for (const Address block : of_size_[units]) pieces_.emplace_back(block, units * unit);
    of_size_[units].clear();
  }
  std::sort(pieces_.begin(), pieces_.end());
  std::vector<Piece> joined;
  for (const Piece& piece : pieces_) {
    const bool begins_slab = std::binary_search(slabs_.begin(), slabs_.end(), piece.first);
    if (!joined.empty() && !begins_slab && joined.back().first + joined.back().second == piece.first) {
      joined.back().second += piece.second;
    } else {
      joined.push_back(piece);
    }
  }
  pieces_ = std::move(joined);
  given_ = 0;
}

}  // namespace pooch::interpose
