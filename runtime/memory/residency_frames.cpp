// Chunks that share frames.
#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/memory/residency.h"

namespace pooch::runtime {

namespace {

// Bytes of the chunk's content between two offsets of its range.
std::uint64_t content_within(const Chunk& chunk, std::uint64_t from, std::uint64_t to) {
  const std::uint64_t begin = std::max(from, chunk.offset), end = std::min(to, chunk.offset + chunk.occupied);
  return end > begin ? end - begin : 0;
}

// The first bytes of what is in the slot.
HostSlot take(HostSlot& slot, std::uint64_t bytes) {
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

}  // namespace

// A new chunk is on the host as a whole: where a part of it is, the rest gets room. `content`: the slots of
// the range's chunks, with that room.
Status Residency::fill_gaps(const Range& range, const std::vector<std::uint64_t>& sizes,
                            std::vector<HostSlot>& content) {
  for (const Chunk& chunk : range.chunks) content.push_back(chunk.slot);
  std::uint64_t from = 0;
  for (const std::uint64_t bytes : sizes) {
    const std::uint64_t to = from + bytes;
    const auto is_part = [&](const Chunk& chunk) { return content_within(chunk, from, to) > 0; };
    const bool on_host = std::any_of(range.chunks.begin(), range.chunks.end(),
                                     [&](const Chunk& chunk) { return chunk.host_valid && is_part(chunk); });
    for (std::size_t c = 0; on_host && c < range.chunks.size(); ++c) {
      const Chunk& chunk = range.chunks[c];
      if (chunk.host_valid || !content[c].empty() || !is_part(chunk)) continue;
      if (chunk.live) return Error{ErrorCode::internal, "some of a map was dropped, and some is on the host"};
      auto room = arena_.allocate(chunk.occupied);
      if (!room) return room.error();
      content[c] = std::move(*room);
    }
    from = to;
  }
  return Done{};
}

Status Residency::cut(Range& range, const std::vector<std::uint64_t>& sizes) {
  const auto has_size = [](const Chunk& chunk, std::uint64_t bytes) { return chunk.bytes == bytes; };
  if (std::equal(range.chunks.begin(), range.chunks.end(), sizes.begin(), sizes.end(), has_size))
    return Done{};
  std::vector<HostSlot> content;
  if (const auto filled = fill_gaps(range, sizes, content); !filled) {
    for (std::size_t c = 0; c < content.size(); ++c)
      if (range.chunks[c].slot.empty() && !content[c].empty()) arena_.free(std::move(content[c]), {});
    return filled;
  }
  for (const HostSlot& slot : content) arena_.break_up(slot);
  std::vector<Chunk> parts;
  std::uint64_t from = 0;
  for (const std::uint64_t bytes : sizes) {
    Chunk& part = parts.emplace_back();
    part.address = range.base + from;
    part.bytes = bytes;
    part.offset = from;
    part.owner = range.chunks.front().owner;
    part.name = range.chunks.front().name;
    for (std::size_t c = 0; c < range.chunks.size(); ++c) {
      const Chunk& chunk = range.chunks[c];
      const std::uint64_t some = content_within(chunk, from, from + bytes);
      if (some == 0) continue;
      part.occupied += some;
      part.live |= chunk.live;
      part.host_valid |= chunk.host_valid;
      part.last_use = std::max(part.last_use, chunk.last_use);
      const HostSlot taken = take(content[c], round_up(some, page));
      part.slot.insert(part.slot.end(), taken.begin(), taken.end());
    }
    if (!part.host_valid && !part.slot.empty()) arena_.free(std::exchange(part.slot, {}), {});
    part.state = state_without_memory(part);
    from += bytes;
  }
  range.chunks = std::move(parts);
  return Done{};
}

Mark Residency::launched(const std::vector<ChunkUse>& uses, StreamIndex stream) {
  const bool exactly =
      std::any_of(uses.begin(), uses.end(), [](const ChunkUse& use) { return use.chunk->wanders; });
  return exactly ? order_.launched_exactly(stream) : order_.launched(stream);
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
