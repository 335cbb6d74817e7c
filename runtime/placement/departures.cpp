#include "runtime/placement/departures.h"

#include <algorithm>

#include "runtime/memory/host_wait.h"

namespace pooch::runtime {

void Departures::forget(const Range& range) {
  if (range.chunks.empty()) return;
  const Chunk *first = &range.chunks.front(), *last = &range.chunks.back();
  std::erase_if(leaving_, [&](const Chunk* chunk) { return chunk >= first && chunk <= last; });
}

std::uint64_t Departures::bytes() const {
  std::uint64_t sum = 0;
  for (const Chunk* const chunk : leaving_)
    if (chunk->state == ChunkState::evicting && chunk->pins == 0) sum += chunk->bytes;
  return sum;
}

// Whatever has finished, wherever it stands: dead content need not wait behind copies.
Status Departures::take_finished(std::uint64_t bytes) {
  unfinished_.clear();
  going_.clear();
  std::uint64_t coming = pool_.available();
  for (auto it = leaving_.begin(); it != leaving_.end() && coming < bytes;) {
    Chunk& chunk = **it;
    // Taken back meanwhile, or in the middle of a call that blocks.
    if (chunk.state != ChunkState::evicting || chunk.pins > 0) {
      it = leaving_.erase(it);
      continue;
    }
    const auto finished = is_finished(chunk.uses);
    if (!finished) return finished.error();
    if (!*finished) {
      ++it;
      continue;
    }
    it = leaving_.erase(it);
    coming += chunk.bytes;
    going_.push_back(&chunk);
  }
  return residency_.finish_evictions(going_);
}

Status Departures::take_matching(const std::vector<ChunkUse>& uses) {
  lacking_.clear();
  for (const ChunkUse& use : uses)
    if (use.chunk->state != ChunkState::resident && use.chunk->state != ChunkState::evicting)
      lacking_[pool_.handle_size(use.chunk->bytes)] += use.chunk->bytes;
  std::uint64_t lacking = 0;
  for (auto& [size, bytes] : lacking_) lacking += bytes -= std::min(bytes, pool_.free_bytes(size));
  unfinished_.clear();
  going_.clear();
  for (auto it = leaving_.begin(); it != leaving_.end() && lacking > 0;) {
    Chunk& chunk = **it;
    const auto wanted = lacking_.find(pool_.handle_size(chunk.bytes));
    if (wanted == lacking_.end() || wanted->second == 0 || chunk.state != ChunkState::evicting ||
        chunk.pins > 0) {
      ++it;
      continue;
    }
    const auto finished = is_finished(chunk.uses);
    if (!finished) return finished.error();
    if (!*finished) {
      ++it;
      continue;
    }
    it = leaving_.erase(it);
    going_.push_back(&chunk);
    const std::uint64_t served = std::min(wanted->second, chunk.bytes);
    wanted->second -= served;
    lacking -= served;
  }
  return residency_.finish_evictions(going_);
}

// Asks the driver once per stream for what is behind something that has not finished.
Result<bool> Departures::is_finished(const Marks& marks) {
  for (const Mark& mark : marks) {
    const auto behind = [&](const Mark& other) {
      return other.stream == mark.stream && other.ticket <= mark.ticket;
    };
    if (std::any_of(unfinished_.begin(), unfinished_.end(), behind)) return false;
    const auto finished = order_.finished(mark);
    if (!finished) return finished.error();
    if (*finished) continue;
    unfinished_.push_back(mark);
    return false;
  }
  return true;
}

// What leaves without a copy goes when the device gets beyond its last use; copies queue up behind each other
// and may take much longer, even where they were begun first.
const Chunk& Departures::next_to_leave() const {
  const auto copied = [this](const Chunk* chunk) {
    return std::any_of(chunk->uses.begin(), chunk->uses.end(),
                       [this](const Mark& mark) { return mark.stream == residency_.out_stream(); });
  };
  const auto found = std::find_if_not(leaving_.begin(), leaving_.end(), copied);
  return found == leaving_.end() ? *leaving_.front() : **found;
}

Result<bool> Departures::reclaim(std::uint64_t bytes, Wait wait, Held& held) {
  while (pool_.available() < bytes) {
    if (waiting_.taken()) {
      if (wait == Wait::no) return false;
      waiting_.await(held);
      continue;
    }
    if (const auto taken = take_finished(bytes); !taken) return taken.error();
    if (pool_.available() >= bytes) break;
    if (leaving_.empty() || wait == Wait::no) return false;
    // Waiting could mean waiting for the program, which waits for us.
    const auto blocked = order_.host_blocked();
    if (!blocked) return blocked.error();
    if (*blocked) return false;
    const Turn::Taken turn = waiting_.take(held);
    ++waits_;
    const Marks uses = next_to_leave().uses;  // a copy: the chunk may go while the host waits
    if (const auto outcome = await(device_, order_, uses, held); !outcome) return outcome.error();
  }
  return true;
}

}  // namespace pooch::runtime
