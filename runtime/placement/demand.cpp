#include "runtime/placement/demand.h"

#include <algorithm>
#include <chrono>

#include "runtime/memory/host_wait.h"
#include "runtime/memory/landing.h"

namespace pooch::runtime {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Cost per byte in one-way transfers, over the ops until it is touched again; where those are not known, they
// are expected to be as many as passed since it was.
double Demand::score(const Chunk& chunk, std::uint64_t clock) const {
  if (chunk.state == ChunkState::evicting) return 0;  // that is paid
  const bool foreseen = foresight_.foresees() && chunk.next_use > foresight_.now();
  const double cost = !chunk.live ? 0 : (chunk.host_valid ? 0 : 1) + (foreseen && chunk.ends ? 0 : 1);
  const std::uint64_t ops = foreseen ? chunk.next_use - foresight_.now() : clock - chunk.last_use + 1;
  return cost / static_cast<double>(ops);
}

Status Demand::make_room(std::uint64_t bytes, std::uint64_t op, Held& held) {
  const auto deadline = Clock::now() + patience_with_the_program;
  while (pool_.available() < bytes) {
    if (moving_.taken()) {
      moving_.await(held);
      continue;
    }
    // Asked first: where it blocks, a round leaves out what may go as soon as it does not.
    const auto blocked = order_.host_blocked();
    if (!blocked) return blocked.error();
    const auto went = round(bytes - pool_.available(), op, held);
    if (!went) return went.error();
    if (*went) continue;
    const bool in_flight =
        std::any_of(residency_.mapped().begin(), residency_.mapped().end(),
                    [](const Chunk* chunk) { return chunk->pins > (chunk->stays ? 1 : 0); });
    if ((!*blocked && !in_flight) || Clock::now() > deadline)
      return Error{ErrorCode::out_of_memory, *blocked
                                                 ? "a host function blocks everything that could be evicted"
                                             : arena_.full() ? "the host budget is exhausted"
                                                             : "nothing is left to evict"};
    held.pause(std::chrono::milliseconds(1));
  }
  return Done{};
}

Result<bool> Demand::round(std::uint64_t bytes, std::uint64_t op, Held& held) {
  if (const auto chosen = choose(bytes, op); !chosen) return chosen.error();
  order_.set_eager(true);
  const Turn::Taken turn = moving_.take(held);
  bool any = false;
  Status outcome = Done{};
  for (Chunk* chunk : victims_) {
    const auto begun = begin(*chunk, op, held);
    if (!begun) {
      outcome = begun.error();
      break;
    }
    any |= *begun;
  }
  if (outcome) outcome = finish(held);
  if (!outcome) return outcome.error();
  return any;
}

// Somebody may take some back while the host waits, and they may be leaving once more when it has waited.
Status Demand::finish(Held& held) {
  std::vector<Chunk*> gone;
  for (bool waited = false;; waited = true) {
    gone.clear();
    Marks left;
    for (Chunk* chunk : victims_) {
      if (chunk->state != ChunkState::evicting || chunk->pins > 0) continue;
      const auto finished = waited ? order_.finished(chunk->uses) : Result<bool>(false);
      if (!finished) return finished.error();
      if (*finished)
        gone.push_back(chunk);
      else
        left.add(chunk->uses);
    }
    const auto blocked = waited && !left.empty() ? order_.host_blocked() : Result<bool>(false);
    if (!blocked) return blocked.error();
    if (waited && (left.empty() || *blocked)) return residency_.finish_evictions(std::move(gone));
    if (const auto done = await(device_, order_, left, held); !done) return done;
  }
}

Status Demand::choose(std::uint64_t bytes, std::uint64_t op) {
  const auto blocked = order_.host_blocked();
  if (!blocked) return blocked.error();
  victims_.clear();
  if (*blocked && residency_.landing() != nullptr) {
    const auto quiet = residency_.landing()->quiet();
    if (!quiet) return quiet.error();
    if (!*quiet) return Done{};
  }
  for (Chunk* chunk : residency_.mapped()) {
    const bool leaving = chunk->state == ChunkState::evicting;
    if ((chunk->state != ChunkState::resident && !leaving) || chunk->pins > 0 || chunk->gathered_by == op)
      continue;
    if (policy_ == Policy::keep && chunk->live) continue;
    if (*blocked) {
      // Waiting for such a chunk could mean waiting for the program, which waits for us.
      const auto finished = order_.finished(chunk->uses);
      if (!finished) return finished.error();
      if (!*finished) continue;
    }
    victims_.push_back(chunk);
  }
  const auto costs_more = [this, op](const Chunk* a, const Chunk* b) {
    const double sa = score(*a, op), sb = score(*b, op);
    if (sa != sb) return sa > sb;
    // Dead content costs nothing, but the host waits for who used it last.
    return a->last_use != b->last_use ? a->last_use > b->last_use : a->address > b->address;
  };
  std::make_heap(victims_.begin(), victims_.end(), costs_more);
  auto heap_end = victims_.end();
  for (std::uint64_t got = 0; got < bytes && heap_end != victims_.begin();) {
    std::pop_heap(victims_.begin(), heap_end, costs_more);
    got += (*--heap_end)->bytes;
  }
  victims_.erase(victims_.begin(), heap_end);
  std::reverse(victims_.begin(), victims_.end());
  return Done{};
}

// False: the chunk cannot go, for lack of host memory or because it is in use again.
Result<bool> Demand::begin(Chunk& chunk, std::uint64_t op, Held& held) {
  for (;;) {
    if (chunk.pins > 0) return false;
    if (chunk.state == ChunkState::evicting) return true;
    if (chunk.state != ChunkState::resident) return false;
    if (remaker_ != nullptr && chunk.live && !chunk.host_valid) {
      const auto dropped = remaker_->drop(chunk, op);
      if (!dropped) return dropped.error();
      if (*dropped > 0) return true;
    }
    const auto begun = residency_.begin_eviction(chunk);
    if (begun) return true;
    if (begun.error().code != ErrorCode::out_of_memory) return begun.error();
    if (const auto busy = arena_.busy()) {
      Marks one;
      one.add(*busy);
      if (const auto waited = await(device_, order_, one, held); !waited) return waited.error();
    } else if (!free_host_memory(chunk.occupied)) {
      return false;
    }
  }
}

// Turns clean chunks into dirty ones, least recently used last: their host copies are the cheapest to give
// up.
bool Demand::free_host_memory(std::uint64_t bytes) {
  std::uint64_t got = 0;
  for (Chunk* chunk : residency_.mapped()) {
    if (got >= bytes) break;
    if (chunk->state != ChunkState::resident || !chunk->host_valid || chunk->stale) continue;
    got += chunk->occupied;
    residency_.drop_host_copy(*chunk);
  }
  return got > 0;
}

Result<std::vector<Residency::Span>> Demand::forget_unused(FunctionRef<void(const Range&)> going,
                                                           Held& held) {
  const Turn::Taken turn = moving_.take(held);
  if (const auto waited = await(device_, order_, residency_.unused_marks(), held); !waited)
    return waited.error();
  return residency_.forget_unused(going);
}

}  // namespace pooch::runtime
