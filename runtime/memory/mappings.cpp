#include "runtime/memory/mappings.h"

#include <algorithm>

namespace pooch::runtime {

Status Mappings::map(const Chunk& chunk, const Pieces& pieces) {
  Address at = chunk.address;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (const auto mapped = device_.map(at, pieces[i].bytes, pieces[i].handle); !mapped) {
      unmap_for_pool(chunk.address, Pieces(pieces.begin(), pieces.begin() + static_cast<std::ptrdiff_t>(i)));
      pool_.give_back(Pieces(pieces.begin() + static_cast<std::ptrdiff_t>(i), pieces.end()));
      return mapped;
    }
    at = at + pieces[i].bytes;
  }
  return Done{};
}

// Gives the pool back what could be unmapped. The rest serves nobody any more: who was given it would share
// it with whatever is reached at the old address.
void Mappings::unmap_for_pool(Address at, const Pieces& pieces) {
  std::size_t gone = 0;
  if (unmap(at, pieces, gone)) return pool_.give_back(pieces);
  give_back(pieces, gone);
}

void Mappings::give_back(const Pieces& pieces, std::size_t gone) {
  const auto left = pieces.begin() + static_cast<std::ptrdiff_t>(gone);
  pool_.give_back(Pieces(pieces.begin(), left));
  pool_.abandon(Pieces(left, pieces.end()));
}

// One call for neighbours, as NVIDIA's sample vectorAddMMAP does it; the documentation speaks of whole
// mappings and does not say how many. A driver that takes one only is asked for one at a time.
Status Mappings::unmap(Address at, std::span<const Piece> pieces, std::size_t& gone) {
  gone = 0;
  if (pieces.empty()) return Done{};
  if (unmaps_runs_ || pieces.size() == 1) {
    std::uint64_t bytes = 0;
    for (const Piece& piece : pieces) bytes += piece.bytes;
    const auto unmapped = device_.unmap(at, bytes);
    if (unmapped) gone = pieces.size();
    if (unmapped || pieces.size() == 1) return unmapped;
    unmaps_runs_ = false;
  }
  for (; gone < pieces.size(); ++gone) {
    if (const auto unmapped = device_.unmap(at, pieces[gone].bytes); !unmapped) return unmapped;
    at = at + pieces[gone].bytes;
  }
  return Done{};
}

// One call per run of neighbours: it is the most expensive of the mapping calls.
Status Mappings::grant_access(std::vector<Chunk*>& chunks) {
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk* a, const Chunk* b) { return a->address < b->address; });
  for (std::size_t i = 0; i < chunks.size();) {
    const Address start = chunks[i]->address;
    Address end = start;
    for (; i < chunks.size() && chunks[i]->address == end; ++i) end = end + chunks[i]->bytes;
    if (const auto granted = device_.set_access(start, end - start); !granted) return granted.error();
  }
  return Done{};
}

void Mappings::add(Chunk& chunk) {
  chunk.mapped_index = static_cast<std::uint32_t>(chunks_.size());
  chunks_.push_back(&chunk);
}

void Mappings::remove(Chunk& chunk) {
  chunks_[chunk.mapped_index] = chunks_.back();
  chunks_[chunk.mapped_index]->mapped_index = chunk.mapped_index;
  chunks_.pop_back();
}

}  // namespace pooch::runtime
