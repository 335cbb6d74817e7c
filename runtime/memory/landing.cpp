#include "runtime/memory/landing.h"

#include <algorithm>
#include <chrono>

#include "core/log.h"
#include "runtime/memory/host_wait.h"

namespace pooch::runtime {
namespace {

using Clock = std::chrono::steady_clock;

bool under_way(const Chunk* chunk) {
  return chunk->state == ChunkState::evicting && chunk->live;
}

}  // namespace

// --- unforeseen ops

Status Landing::settle(Held& held) {
  // Else a thread that launches one after the other would keep another waiting for ever.
  waiting_.await(held);
  std::erase_if(leaving_, [](const Chunk* chunk) { return !under_way(chunk); });
  if (leaving_.empty()) return Done{};
  const auto blocked = order_.host_blocked();
  if (!blocked) return blocked.error();
  if (*blocked) return Done{};
  Marks marks;
  for (const Chunk* chunk : leaving_) marks.add(chunk->uses);
  if (const auto waited = await(device_, order_, marks, held); !waited) return waited;
  // Other threads may have been here.
  std::vector<Chunk*> gone;
  for (Chunk* chunk : leaving_) {
    if (!under_way(chunk) || chunk->pins > 0) continue;
    const auto finished = order_.finished(chunk->uses);
    if (!finished) return finished.error();
    if (*finished) gone.push_back(chunk);
  }
  return residency_.finish_evictions(std::move(gone));
}

Status Landing::enter(StreamIndex stream) {
  for (Chunk* chunk : leaving_)
    if (under_way(chunk)) residency_.take_back(*chunk);
  leaving_.clear();
  return order_.follow(stream, last_fetch_);
}

Result<bool> Landing::await_untouched(const std::vector<ChunkUse>& uses, Patience patience, Held& held) {
  if (std::none_of(uses.begin(), uses.end(), [](const ChunkUse& use) { return use.chunk->landed; }))
    return false;
  const auto deadline = Clock::now() + patience_with_the_program;
  for (bool waited = false;; waited = true) {
    const auto untouched = quiet();
    if (!untouched) return untouched.error();
    if (*untouched) return waited;
    const auto blocked = order_.host_blocked();
    if (!blocked) return blocked.error();
    if (!*blocked) {
      const Turn::Taken turn = waiting_.join();
      if (const auto done = await(device_, order_, Marks(ops_), held); !done) return done.error();
      return true;
    }
    if (patience == Patience::none || Clock::now() > deadline)
      return Error{ErrorCode::out_of_memory, "a host function blocks what may be using them"};
    held.pause(std::chrono::milliseconds(1));
  }
}

// --- chunks

Result<HostSlot> Landing::room_for(const Chunk& chunk) {
  sweep();
  if (!refused_)
    if (auto slot = arena_.allocate_handle(chunk.bytes);
        slot || slot.error().code != ErrorCode::out_of_memory)
      return slot;
  return arena_.allocate(chunk.occupied);
}

void Landing::leaving(Chunk& chunk) {
  chunk.uses.add(ops_);
  if (chunk.live) leaving_.push_back(&chunk);
}

void Landing::closing(Chunk& chunk) {
  if (chunk.state == ChunkState::evicting) std::erase(leaving_, &chunk);
  if (!chunk.landed) return;
  chunk.host_valid = false;
  closed_.push_back(&chunk);
}

void Landing::sweep() {
  if (closed_.empty()) return;
  const auto untouched = quiet();
  if (!untouched || !*untouched) return;
  while (!closed_.empty())
    if (!unmap(*closed_.back())) return;
}

Status Landing::unmap(Chunk& chunk) {
  const auto untouched = quiet();
  if (!untouched) return untouched.error();
  if (!*untouched)
    return Error{ErrorCode::internal, "a landed chunk is moved while an op may be reaching it"};
  if (const auto unmapped = device_.unmap(chunk.address, chunk.bytes); !unmapped) return unmapped;
  chunk.landed = false;
  if (!chunk.host_valid) {
    std::erase(closed_, &chunk);
    residency_.drop_host_copy(chunk);
  }
  return Done{};
}

bool Landing::rest() {
  const auto untouched = quiet();
  if (waiting_.taken() || !untouched || !*untouched) return false;
  sweep();
  if (!closed_.empty() || !residency_.unmap_landed()) return false;
  leaving_.clear();
  return true;
}

void Landing::land(std::span<Chunk* const> chunks) {
  std::erase_if(leaving_, [](const Chunk* chunk) { return !under_way(chunk); });
  for (std::size_t first = 0; first < chunks.size() && !refused_;) {
    const auto lands = [&](std::size_t i) {
      const Chunk& chunk = *chunks[i];
      return chunk.state == ChunkState::evicted && arena_.handle_of(chunk.slot);
    };
    std::size_t next = first;
    while (next < chunks.size() && lands(next) &&
           (next == first || chunks[next - 1]->address + chunks[next - 1]->bytes == chunks[next]->address))
      ++next;
    if (next == first) {
      ++first;
      continue;
    }
    if (const auto mapped = map(chunks.subspan(first, next - first)); !mapped) {
      refused_ = true;
      log::warn(
          "evicted memory cannot be mapped to its copy on the host ({}): an access that no call shows "
          "may fail",
          mapped.error().message);
    }
    first = next;
  }
}

Status Landing::map(std::span<Chunk* const> neighbours) {
  Status done = Done{};
  std::size_t mapped = 0;
  for (; done && mapped < neighbours.size(); mapped += done ? 1 : 0) {
    const Chunk& chunk = *neighbours[mapped];
    done = device_.map(chunk.address, chunk.bytes, *arena_.handle_of(chunk.slot));
  }
  const Chunk &first = *neighbours.front(), &last = *neighbours.back();
  if (done) done = device_.set_access(first.address, last.address + last.bytes - first.address);
  for (std::size_t i = 0; i < mapped; ++i) {
    Chunk& chunk = *neighbours[i];
    // One that cannot be unmapped again stays landed, so that it is unmapped before its memory comes back.
    if (!done && device_.unmap(chunk.address, chunk.bytes)) continue;
    chunk.landed = true;
    ++landings_;
  }
  return done;
}

}  // namespace pooch::runtime
