#include "runtime/memory/residency.h"

#include <algorithm>
#include <utility>

#include "runtime/memory/landing.h"

namespace pooch::runtime {

Residency::Residency(Device& device, StreamOrder& order, HandlePool& pool, HostArena& arena,
                     StreamHandle out_stream, StreamHandle in_stream)
    : device_(device),
      order_(order),
      pool_(pool),
      arena_(arena),
      out_(order.index(out_stream)),
      in_(order.index(in_stream)),
      mappings_(device, pool),
      checks_(arena) {
  order_.set_own(out_);
  order_.set_own(in_);
}

// --- ranges
// ----------------------------------------------------------------------------------------------------

Range& Residency::open(Address base, std::uint64_t range_bytes, AllocationId owner,
                       std::uint64_t allocation_bytes) {
  const auto [it, fresh] = ranges_.try_emplace(base);
  Range& range = it->second;
  if (fresh) {
    range.base = base;
    range.bytes = range_bytes;
    std::uint64_t offset = 0;
    for (const std::uint64_t bytes : pool_.compose(range_bytes)) {
      Chunk& chunk = range.chunks.emplace_back();
      chunk.address = base + offset;
      chunk.bytes = bytes;
      chunk.offset = offset;
      offset += bytes;
    }
  }
  range.in_use = true;
  for (Chunk& chunk : range.chunks) {
    chunk.owner = owner;
    chunk.name = {};
    chunk.next_use = 0;
    chunk.ends = false;
    chunk.occupied =
        allocation_bytes > chunk.offset ? std::min(chunk.bytes, allocation_bytes - chunk.offset) : 0;
  }
  return range;
}

Range* Residency::find(Address base) {
  const auto found = ranges_.find(base);
  return found == ranges_.end() ? nullptr : &found->second;
}

void Residency::close(Range& range, const Marks& after) {
  range.in_use = false;
  range.pinned = false;
  for (Chunk& chunk : range.chunks) {
    if (std::exchange(chunk.stays, false)) --chunk.pins;
    if (landing_ != nullptr) landing_->closing(chunk);
    checks_.drop(chunk);
    if (!chunk.landed) drop_host_copy(chunk);
    chunk.live = false;
    chunk.stale = false;
    chunk.expendable = false;
    chunk.occupied = 0;
    if (chunk.state == ChunkState::evicted || chunk.state == ChunkState::dropped)
      chunk.state = ChunkState::unbacked;
    if (chunk.state == ChunkState::evicting) chunk.state = ChunkState::resident;
    if (chunk.state == ChunkState::unbacked) continue;
    chunk.uses.add(after);
    chunk.before.add(chunk.uses);
  }
  if (landing_ != nullptr) landing_->sweep();
}

Marks Residency::unused_marks() const {
  Marks marks;
  for (const Chunk* chunk : mappings_.chunks())
    if (chunk->occupied == 0) marks.add(chunk->uses);
  return marks;
}

Result<std::vector<Residency::Span>> Residency::forget_unused(FunctionRef<void(const Range&)> going) {
  std::vector<Span> forgotten;
  if (landing_ != nullptr) landing_->sweep();
  for (auto it = ranges_.begin(); it != ranges_.end();) {
    Range& range = it->second;
    bool idle = !range.in_use;
    for (const Chunk& chunk : range.chunks) {
      if (!idle) break;
      const auto finished = order_.finished(chunk.uses);
      if (!finished) return finished.error();
      idle = *finished && chunk.pins == 0 && chunk.frames.empty() && !chunk.landed;
    }
    if (!idle) {
      ++it;
      continue;
    }
    going(range);
    for (Chunk& chunk : range.chunks)
      if (chunk.state != ChunkState::unbacked)
        if (const auto gone = finish_eviction(chunk); !gone) return gone.error();
    forgotten.emplace_back(range.base, range.bytes);
    it = ranges_.erase(it);
  }
  return forgotten;
}

// --- uses
// ------------------------------------------------------------------------------------------------------

void Residency::gather(Range& range, std::uint64_t offset, std::uint64_t bytes, Effect effect,
                       std::uint32_t operand, std::uint64_t op, std::vector<ChunkUse>& uses) {
  const std::uint64_t end = offset + bytes;
  auto chunk = range.chunks.begin();
  if (offset > 0)
    chunk = std::partition_point(range.chunks.begin(), range.chunks.end(),
                                 [&](const Chunk& c) { return c.offset + c.bytes <= offset; });
  for (; chunk != range.chunks.end() && chunk->offset < end; ++chunk) {
    const bool whole = offset <= chunk->offset && chunk->offset + chunk->occupied <= end;
    if (chunk->gathered_by != op) {
      chunk->gathered_by = op;
      chunk->gathered_index = static_cast<std::uint32_t>(uses.size());
      uses.push_back({&*chunk, false, false, operand});
    }
    ChunkUse& use = uses[chunk->gathered_index];
    // What an overwrite of a part leaves alone must be there afterwards.
    use.needs_content |= pooch::needs_content(effect) || !whole;
    use.changes |= changes_content(effect);
  }
}

bool Residency::settled(const std::vector<ChunkUse>& uses) {
  return std::all_of(uses.begin(), uses.end(), [](const ChunkUse& use) {
    return use.chunk->state == ChunkState::resident && !use.chunk->stale;
  });
}

std::uint64_t Residency::missing(const std::vector<ChunkUse>& uses) {
  std::uint64_t bytes = 0;
  for (const ChunkUse& use : uses)
    if (use.chunk->state != ChunkState::resident && use.chunk->state != ChunkState::evicting)
      bytes += use.chunk->bytes;
  return bytes;
}

Status Residency::make_resident(const std::vector<ChunkUse>& uses) {
  fresh_.clear();
  Status outcome = Done{};
  for (const ChunkUse& use : uses) {
    Chunk& chunk = *use.chunk;
    // Another thread wanted it out; that its copy may still run is what `uses` and `before` know.
    if (chunk.state == ChunkState::evicting) take_back(chunk);
    if (chunk.state == ChunkState::resident) continue;
    outcome = back(chunk);
    if (!outcome) break;
    fresh_.push_back(&chunk);
  }
  if (const auto granted = mappings_.grant_access(fresh_); !granted) {
    for (Chunk* chunk : fresh_) unback(*chunk);
    return granted.error();
  }
  for (Chunk* chunk : fresh_) {
    chunk->stale = chunk->state == ChunkState::evicted;
    chunk->expendable = chunk->state == ChunkState::dropped;
    chunk->state = ChunkState::resident;
  }
  // An op that overwrites a whole chunk needs none of its content; should the call fail, it is fetched after
  // all.
  for (const ChunkUse& use : uses)
    if (use.chunk->stale && use.needs_content)
      if (const auto fetched = fetch(*use.chunk); !fetched) return fetched.error();
  return outcome;
}

Result<bool> Residency::make_some_resident(const std::vector<ChunkUse>& uses) {
  std::uint64_t left = pool_.available();
  bool any = false;
  std::vector<ChunkUse> some;
  for (const ChunkUse& use : uses) {
    const bool resident = use.chunk->state == ChunkState::resident;
    if (!resident && use.chunk->bytes > left) continue;
    if (resident && !use.chunk->stale) continue;
    if (!resident) left -= use.chunk->bytes;
    any = true;
    some.push_back({use.chunk, /*needs_content=*/true, use.changes});
  }
  if (const auto resident = make_resident(some); !resident) return resident.error();
  return any;
}

Result<std::uint64_t> Residency::make_resident_ahead(const std::vector<ChunkUse>& uses) {
  std::uint64_t left = pool_.available(), next = 0;
  std::vector<ChunkUse> served;
  for (const ChunkUse& use : uses) {
    if (use.chunk->state == ChunkState::resident) continue;
    if (use.chunk->bytes <= left) {
      left -= use.chunk->bytes;
      served.push_back(use);
    } else if (next == 0 || use.chunk->bytes < next) {
      next = use.chunk->bytes;
    }
  }
  if (const auto resident = make_resident(served); !resident) return resident.error();
  return next;
}

Status Residency::has_content(const std::vector<ChunkUse>& uses, bool remaking) {
  const auto lacks = [remaking](const ChunkUse& use) {
    return use.needs_content && use.chunk->expendable && !(remaking && use.changes);
  };
  if (std::none_of(uses.begin(), uses.end(), lacks)) return Done{};
  return Error{ErrorCode::internal, "an operand was dropped and has not been made again"};
}

void Residency::used(const std::vector<ChunkUse>& uses, Mark mark, std::uint64_t op) {
  for (const ChunkUse& use : uses) {
    Chunk& chunk = *use.chunk;
    chunk.uses.add(mark);
    chunk.last_use = op;
    if (!use.changes) continue;
    drop_host_copy(chunk);
    chunk.stale = false;
    chunk.expendable = false;
  }
}

// --- moves
// -----------------------------------------------------------------------------------------------------

Status Residency::back(Chunk& chunk) {
  auto pieces = pool_.acquire(chunk.bytes);
  if (!pieces) return pieces.error();
  if (chunk.landed)
    if (const auto left = landing_->unmap(chunk); !left) return pool_.give_back(*pieces), left;
  if (const auto mapped = mappings_.map(chunk, *pieces); !mapped) return mapped;
  chunk.pieces = std::move(*pieces);
  mappings_.add(chunk);
  return Done{};
}

// Undoes `back`: nothing has used the mapping yet.
void Residency::unback(Chunk& chunk) {
  mappings_.unmap_for_pool(chunk.address, std::exchange(chunk.pieces, {}));
  mappings_.remove(chunk);
}

Trace::Number Residency::begin_slice(TraceTrack track, const Chunk& chunk, StreamIndex stream) {
  if (trace_ == nullptr) return Trace::none;
  const std::string_view name = chunk.name.empty() ? "chunk" : chunk.name;
  return trace_->begin({track, name, order_.handle(stream), -1, chunk.occupied, chunk.flow, {}});
}

Status Residency::fetch(Chunk& chunk) {
  if (const auto ordered = order_.follow(in_, chunk.before); !ordered) return ordered.error();
  const auto shown = begin_slice(TraceTrack::copies_in, chunk, in_);
  std::uint64_t offset = 0;
  Status copied = Done{};
  for (const HostExtent& extent : chunk.slot) {
    const std::uint64_t bytes = std::min(extent.bytes, chunk.occupied - offset);
    copied = device_.copy_in(chunk.address + offset, extent.memory, bytes, order_.handle(in_));
    if (!copied) break;
    offset += bytes;
  }
  if (trace_ != nullptr) trace_->end(shown);
  // Where one was refused, those before it are under way all the same.
  const Mark mark = order_.launched(in_);
  chunk.slot_use = mark;
  chunk.uses.add(mark);
  chunk.before.add(mark);
  if (!copied) return copied;
  chunk.stale = false;
  if (landing_ == nullptr) return Done{};
  landing_->fetched(mark);
  drop_host_copy(chunk);
  return Done{};
}

Status Residency::save(Chunk& chunk) {
  if (!chunk.live || chunk.expendable) return Done{};
  const bool good = chunk.host_valid;
  if (good && (!checks_.on() || chunk.stale || !chunk.frames.empty())) return Done{};
  auto slot = landing_ != nullptr ? landing_->room_for(chunk) : arena_.allocate(chunk.occupied);
  if (!slot)
    return good ? Status(Done{}) : slot.error();  // without room for a second copy nothing is compared
  if (good) {
    checks_.drop(chunk);
    checks_.keep(chunk, take_copy(chunk).first);
  }
  return copy_out(chunk, std::move(*slot));
}

Status Residency::copy_out(Chunk& chunk, HostSlot slot) {
  if (const auto ordered = order_.follow(out_, chunk.uses); !ordered) {
    arena_.free(std::move(slot), {});
    return ordered.error();
  }
  if (trace_ != nullptr) chunk.flow = trace_->new_flow();
  const auto shown = begin_slice(TraceTrack::copies_out, chunk, out_);
  std::uint64_t offset = 0;
  Status copied = Done{};
  for (const HostExtent& extent : slot) {
    const std::uint64_t bytes = std::min(extent.bytes, chunk.occupied - offset);
    copied = device_.copy_out(extent.memory, chunk.address + offset, bytes, order_.handle(out_));
    if (!copied) break;
    offset += bytes;
  }
  if (trace_ != nullptr) trace_->end(shown);
  // Where one was refused, those before it are under way all the same.
  const Mark mark = order_.launched(out_);
  chunk.uses.add(mark);
  // Should another thread take the chunk back and write to it, the copy must have read it first.
  chunk.before.add(mark);
  if (!copied) {
    arena_.free(std::move(slot), mark);
    return copied;
  }
  chunk.slot = std::move(slot);
  chunk.slot_use = mark;
  chunk.host_valid = true;
  return Done{};
}

Status Residency::begin_eviction(Chunk& chunk) {
  if (landing_ != nullptr) landing_->leaving(chunk);
  if (const auto saved = save(chunk); !saved) return saved;
  chunk.state = ChunkState::evicting;
  return Done{};
}

void Residency::take_back(Chunk& chunk) {
  checks_.drop(chunk);
  chunk.state = ChunkState::resident;
  if (landing_ != nullptr && !chunk.stale) drop_host_copy(chunk);
}

void Residency::begin_drop(Chunk& chunk) {
  drop_host_copy(chunk);
  chunk.state = ChunkState::evicting;
}

Status Residency::finish_evictions(std::vector<Chunk*> chunks) {
  std::sort(chunks.begin(), chunks.end(),
            [](const Chunk* a, const Chunk* b) { return a->address < b->address; });
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  for (auto first = chunks.begin(); first != chunks.end();) {
    const Address start = (*first)->address;
    Address end = start;
    Pieces pieces;
    auto next = first;
    for (; next != chunks.end() && (*next)->address == end; ++next) {
      end = end + (*next)->bytes;
      pieces.insert(pieces.end(), (*next)->pieces.begin(), (*next)->pieces.end());
    }
    std::size_t gone = 0;
    const auto unmapped = mappings_.unmap(start, pieces, gone);
    if (!unmapped && gone == 0) return unmapped;
    // Half of it gone, the rest is of no use: who comes back to these addresses is refused by the driver.
    mappings_.give_back(pieces, gone);
    for (; first != next; ++first) {
      Chunk& chunk = **first;
      checks_.compare(chunk);
      chunk.pieces.clear();
      mappings_.remove(chunk);
      if (chunk.live) ++evictions_;
      chunk.state = state_without_memory(chunk);
      chunk.stale = false;
      chunk.expendable = false;
      chunk.uses.clear();
      chunk.before.clear();
    }
  }
  if (landing_ != nullptr) landing_->land(chunks);
  return Done{};
}

Status Residency::unmap_landed() {
  for (auto& [base, range] : ranges_)
    for (Chunk& chunk : range.chunks)
      if (chunk.landed)
        if (const auto left = landing_->unmap(chunk); !left) return left;
  return Done{};
}

void Residency::drop_host_copy(Chunk& chunk) {
  if (!chunk.slot.empty()) arena_.free(std::move(chunk.slot), chunk.slot_use);
  chunk.slot.clear();
  chunk.host_valid = false;
}

std::pair<HostSlot, Mark> Residency::take_copy(Chunk& chunk) {
  chunk.host_valid = false;
  return {std::exchange(chunk.slot, {}), chunk.slot_use};
}

Status Residency::put_back(Chunk& chunk, HostSlot slot, Mark last_use) {
  drop_host_copy(chunk);
  chunk.slot = std::move(slot);
  chunk.slot_use = last_use;
  chunk.host_valid = true;
  return fetch(chunk);
}

}  // namespace pooch::runtime
