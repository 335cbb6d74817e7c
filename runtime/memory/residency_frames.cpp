// Chunks that share frames.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/memory/residency.h"

namespace pooch::runtime {

Status Residency::merge(Range& range, std::size_t first, std::size_t count) {
  const auto from = range.chunks.begin() + static_cast<std::ptrdiff_t>(first);
  const auto to = from + static_cast<std::ptrdiff_t>(count);
  const bool any_content = std::any_of(from, to, [](const Chunk& c) { return c.host_valid; });
  if (any_content && std::any_of(from, to, [](const Chunk& c) { return c.live && !c.host_valid; }))
    return Error{ErrorCode::internal, "some of a map was dropped, and some is on the host"};
  for (auto part = from; any_content && part != to; ++part) {
    if (part->host_valid || part->occupied == 0) continue;
    auto room = arena_.allocate(part->occupied);
    if (!room) {
      for (; part != from; --part)
        if (Chunk& earlier = *std::prev(part); !earlier.host_valid) drop_host_copy(earlier);
      return room.error();
    }
    part->slot = std::move(*room);
  }
  Chunk whole = std::move(*from);
  for (auto part = from + 1; part != to; ++part) {
    whole.bytes += part->bytes;
    whole.occupied += part->occupied;
    whole.live |= part->live;
    whole.slot.insert(whole.slot.end(), part->slot.begin(), part->slot.end());
    whole.last_use = std::max(whole.last_use, part->last_use);
    whole.stays |= part->stays;
  }
  whole.host_valid = any_content;
  whole.state = state_without_memory(whole);
  *from = std::move(whole);
  range.chunks.erase(from + 1, to);
  for (Chunk& chunk : range.chunks)
    if (!chunk.pieces.empty()) mappings_.moved(chunk);
  return Done{};
}

// The first bytes of what is in the slot.
static HostSlot take(HostSlot& slot, std::uint64_t bytes) {
  HostSlot taken;
  for (auto extent = slot.begin(); bytes > 0 && extent != slot.end();) {
    const std::uint64_t some = std::min(bytes, extent->bytes);
    taken.push_back({extent->memory, some});
    bytes -= some;
    *extent = {extent->memory + some, extent->bytes - some};
    if (extent->bytes == 0) extent = slot.erase(extent);
  }
  return taken;
}

void Residency::split(Range& range) {
  const std::vector<std::uint64_t> sizes = composition(range);
  if (range.chunks.size() == sizes.size()) return;
  std::vector<Chunk> parts;
  auto size = sizes.begin();
  for (Chunk& whole : range.chunks) {
    HostSlot left = std::move(whole.slot);
    for (std::uint64_t begin = 0; begin < whole.bytes; begin += parts.back().bytes) {
      Chunk& part = parts.emplace_back(whole);
      part.address = whole.address + begin;
      part.offset = whole.offset + begin;
      part.bytes = *size++;
      part.occupied = std::min(part.bytes, whole.occupied - std::min(whole.occupied, begin));
      const bool last = begin + part.bytes >= whole.occupied;
      part.slot = last ? std::exchange(left, {}) : take(left, part.occupied);
      part.live = whole.live && part.occupied > 0;
      part.host_valid = whole.host_valid && part.live;
      part.state = state_without_memory(part);
    }
  }
  range.chunks = std::move(parts);
}

static Pieces pieces_of(std::span<Frame* const> frames) {
  Pieces pieces;
  for (const Frame* frame : frames) pieces.insert(pieces.end(), frame->pieces.begin(), frame->pieces.end());
  return pieces;
}

Status Residency::map_to(Chunk& chunk, std::vector<Frame*> frames) {
  if (const auto mapped = mappings_.map(chunk, pieces_of(frames)); !mapped) return mapped;
  chunk.stale = chunk.state == ChunkState::evicted;
  chunk.expendable = chunk.state == ChunkState::dropped;
  chunk.state = ChunkState::resident;
  chunk.frames = std::move(frames);
  chunk.tenant = false;
  return Done{};
}

Status Residency::move_to(Chunk& chunk, std::vector<Frame*> frames, std::size_t kept) {
  for (Frame* frame : chunk.frames)
    if (frame->tenant == &chunk) frame->tenant = nullptr;
  chunk.tenant = false;
  const Pieces staying = pieces_of(std::span(frames).first(kept));
  const Pieces leaving = pieces_of(std::span(chunk.frames).subspan(kept));
  const Pieces coming = pieces_of(std::span(frames).subspan(kept));
  Address start = chunk.address;
  for (const Piece& piece : staying) start = start + piece.bytes;
  std::size_t gone = 0;
  Status moved = mappings_.unmap(start, leaving, gone);
  Pieces mapped = staying;
  if (moved) {
    Address at = start;
    for (const Piece& piece : coming) {
      moved = device_.map(at, piece.bytes, piece.handle);
      if (!moved) break;
      mapped.push_back(piece);
      at = at + piece.bytes;
    }
    if (moved) moved = device_.set_access(start, at - start);
  } else {
    doubt_ = doubt_.value_or(moved.error());
  }
  if (!moved) {
    if (const auto unmapped = mappings_.unmap(chunk.address, mapped, gone); !unmapped)
      doubt_ = doubt_.value_or(unmapped.error());
    chunk.frames.clear();
    without_memory(chunk);
    return moved;
  }
  chunk.frames = std::move(frames);
  chunk.stale = chunk.live && chunk.host_valid;
  return moved;
}

Status Residency::unmap_from_frames(Chunk& chunk) {
  const std::vector<Frame*> frames = std::exchange(chunk.frames, {});
  Pieces pieces = pieces_of(frames);
  // One that has just been given its frames may not have its content in them yet.
  if (std::exchange(chunk.tenant, false) && chunk.live && !chunk.stale) {
    chunk.pieces = std::move(pieces);
    for (Frame* frame : frames) frame->given_away = true;
    chunk.stale = chunk.expendable = chunk.wanders = false;
    mappings_.add(chunk);
    return Done{};
  }
  std::size_t gone = 0;
  const auto unmapped = mappings_.unmap(chunk.address, pieces, gone);
  if (!unmapped && !doubt_) doubt_ = unmapped.error();
  without_memory(chunk);
  return unmapped;
}

void Residency::without_memory(Chunk& chunk) {
  chunk.state = state_without_memory(chunk);
  chunk.stale = chunk.expendable = chunk.wanders = false;
  chunk.uses.clear();
  chunk.before.clear();
}

}  // namespace pooch::runtime
