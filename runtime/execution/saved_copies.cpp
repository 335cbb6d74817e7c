#include "runtime/execution/saved_copies.h"

#include <utility>

namespace pooch::runtime {

Result<std::vector<SavedCopy>> SavedCopies::save(const std::vector<Chunk*>& chunks) {
  std::vector<SavedCopy> copies;
  std::uint64_t bytes = 0;
  for (const Chunk* chunk : chunks) bytes += chunk->occupied;
  if (copied_ + bytes + others_ > budget_) return copies;
  for (Chunk* chunk : chunks) {
    const auto saved = residency_.save(*chunk);
    if (!saved) {
      free(copies);
      if (saved.error().code != ErrorCode::out_of_memory) return saved.error();
      return copies;
    }
    auto [slot, last_use] = residency_.take_copy(*chunk);
    copied_ += chunk->occupied;
    copies.push_back({chunk, std::move(slot), last_use, chunk->occupied});
  }
  return copies;
}

Status SavedCopies::put_back(std::vector<SavedCopy>& copies) {
  Status done = Done{};
  for (SavedCopy& saved : copies) {
    copied_ -= saved.bytes;
    if (done)
      done = residency_.put_back(*saved.chunk, std::move(saved.slot), saved.last_use);
    else
      host_.free(std::move(saved.slot), saved.last_use);
  }
  copies.clear();
  return done;
}

void SavedCopies::free(std::vector<SavedCopy>& copies) {
  for (SavedCopy& saved : copies) {
    copied_ -= saved.bytes;
    host_.free(std::move(saved.slot), saved.last_use);
  }
  copies.clear();
}

}  // namespace pooch::runtime
