#include "runtime/execution/replay_memory.h"

#include <utility>

#include "core/pages.h"

namespace pooch::runtime {

Result<Range*> ReplayMemory::open(std::uint64_t bytes) {
  const auto address = temporaries_.allocate(round_up(bytes, page));
  if (!address) return Error{ErrorCode::out_of_memory, "the address space for temporary memory is exhausted"};
  return &residency_.open(*address, round_up(bytes, page), AllocationId::none, bytes);
}

Status ReplayMemory::close(Range& range) {
  departures_.forget(range);
  residency_.close(range, {});
  if (const auto given = let_go(range); !given) return given;
  temporaries_.free(range.base);
  return Done{};
}

Result<Range*> ReplayMemory::small(std::uint64_t bytes) {
  if (small_ != nullptr && small_->bytes < bytes)
    if (const auto closed = close(*std::exchange(small_, nullptr)); !closed) return closed.error();
  if (small_ == nullptr) {
    const auto opened = open(bytes);
    if (!opened) return opened.error();
    small_ = *opened;
  }
  return small_;
}

Status ReplayMemory::let_go(Range& range) {
  for (Chunk& chunk : range.chunks) {
    if (chunk.state != ChunkState::resident || chunk.pins > 0 || !chunk.frames.empty()) continue;
    if (const auto begun = residency_.begin_eviction(chunk); !begun) return begun;
    departures_.add(chunk);
  }
  return Done{};
}

}  // namespace pooch::runtime
