// The calls that map memory of the pool to chunks, and which chunks have memory of their own.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/result.h"
#include "runtime/memory/chunk.h"
#include "runtime/memory/handle_pool.h"

namespace pooch::runtime {

class Mappings {
 public:
  Mappings(Device& device, HandlePool& pool) : device_(device), pool_(pool) {}

  // Chunks with pieces of their own, in no order.
  const std::vector<Chunk*>& chunks() const { return chunks_; }
  void add(Chunk& chunk);
  void remove(Chunk& chunk);
  // Such a chunk lies at another place of the host's memory.
  void moved(Chunk& chunk) { chunks_[chunk.mapped_index] = &chunk; }

  // Maps the pieces to the chunk's addresses, one behind the other. Error: the pool has them again.
  Status map(const Chunk& chunk, const Pieces& pieces);
  // What is mapped from `at` on by these pieces, one behind the other. Where it fails, `gone` of them went.
  Status unmap(Address at, std::span<const Piece> pieces, std::size_t& gone);
  void unmap_for_pool(Address at, const Pieces& pieces);
  // Gives the pool back the first `gone` of these pieces; the others are of no use any more.
  void give_back(const Pieces& pieces, std::size_t gone);
  // To chunks that have just been mapped; sorts them.
  Status grant_access(std::vector<Chunk*>& chunks);

 private:
  Device& device_;
  HandlePool& pool_;
  std::vector<Chunk*> chunks_;
  bool unmaps_runs_ = true;  // the driver takes several mappings at once
};

}  // namespace pooch::runtime
