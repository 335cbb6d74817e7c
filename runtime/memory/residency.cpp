#include "runtime/memory/residency.h"

#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/memory/landing.h"

namespace pooch::runtime {

bool Range::used_beside(StreamIndex stream) const {
  return std::any_of(chunks.begin(), chunks.end(), [stream](const Chunk& chunk) {
    return std::any_of(chunk.uses.begin(), chunk.uses.end(), [stream](Mark m) { return m.stream != stream; });
  });
}

Residency::Residency(Device& device, StreamOrder& order, HandlePool& pool, HostArena& arena,
                     StreamHandle out_stream, StreamHandle in_stream)
    : device_(device),
      order_(order),
      pool_(pool),
      arena_(arena),
      out_(order.index(out_stream)),
      in_(order.index(in_stream)) {
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
    drop_check(chunk);
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
  for (const Chunk* chunk : mapped_)
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
  if (const auto granted = grant_access(); !granted) {
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

Status Residency::map(const Chunk& chunk, const Pieces& pieces) {
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
void Residency::unmap_for_pool(Address at, const Pieces& pieces) {
  std::size_t gone = 0;
  if (unmap(at, pieces, gone)) return pool_.give_back(pieces);
  const auto left = pieces.begin() + static_cast<std::ptrdiff_t>(gone);
  pool_.give_back(Pieces(pieces.begin(), left));
  pool_.abandon(Pieces(left, pieces.end()));
}

// One call for neighbours, as NVIDIA's sample vectorAddMMAP does it; the documentation speaks of whole
// mappings and does not say how many. A driver that takes one only is asked for one at a time.
Status Residency::unmap(Address at, std::span<const Piece> pieces, std::size_t& gone) {
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

Status Residency::back(Chunk& chunk) {
  auto pieces = pool_.acquire(chunk.bytes);
  if (!pieces) return pieces.error();
  if (chunk.landed)
    if (const auto left = landing_->unmap(chunk); !left) return pool_.give_back(*pieces), left;
  if (const auto mapped = map(chunk, *pieces); !mapped) return mapped;
  chunk.pieces = std::move(*pieces);
  add_mapped(chunk);
  return Done{};
}

// Undoes `back`: nothing has used the mapping yet.
void Residency::unback(Chunk& chunk) {
  unmap_for_pool(chunk.address, std::exchange(chunk.pieces, {}));
  remove_mapped(chunk);
}

// One call per run of neighbours: it is the most expensive of the mapping calls.
Status Residency::grant_access() {
  std::sort(fresh_.begin(), fresh_.end(),
            [](const Chunk* a, const Chunk* b) { return a->address < b->address; });
  for (std::size_t i = 0; i < fresh_.size();) {
    const Address start = fresh_[i]->address;
    Address end = start;
    for (; i < fresh_.size() && fresh_[i]->address == end; ++i) end = end + fresh_[i]->bytes;
    if (const auto granted = device_.set_access(start, end - start); !granted) return granted.error();
  }
  return Done{};
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
  if (good && (!checks_ || chunk.stale || !chunk.frames.empty())) return Done{};
  auto slot = landing_ != nullptr ? landing_->room_for(chunk) : arena_.allocate(chunk.occupied);
  if (!slot)
    return good ? Status(Done{}) : slot.error();  // without room for a second copy nothing is compared
  if (good) {
    drop_check(chunk);
    earlier_copies_[&chunk] = take_copy(chunk).first;
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

void Residency::drop_check(Chunk& chunk) {
  const auto earlier = earlier_copies_.find(&chunk);
  if (earlier == earlier_copies_.end()) return;
  arena_.free(std::move(earlier->second), chunk.slot_use);
  earlier_copies_.erase(earlier);
}

// The host saw the new copy end.
void Residency::check_copy(Chunk& chunk) {
  const auto earlier = earlier_copies_.find(&chunk);
  if (earlier == earlier_copies_.end()) return;
  std::vector<std::byte> bytes[2];
  const HostSlot* const slots[2] = {&earlier->second, &chunk.slot};
  for (int i = 0; i < 2; ++i) {
    for (const HostExtent& extent : *slots[i])
      bytes[i].insert(bytes[i].end(), extent.memory, extent.memory + extent.bytes);
    bytes[i].resize(chunk.occupied);
  }
  const auto [first, other] = std::mismatch(bytes[0].begin(), bytes[0].end(), bytes[1].begin());
  if (first != bytes[0].end())
    log::error(
        "POOCH_CHECK: {} at {:#x} was changed on the device, from byte {} on, by something that no call "
        "named; its "
        "newer content is kept",
        chunk.name.empty() ? "memory" : chunk.name, raw(chunk.address), first - bytes[0].begin());
  drop_check(chunk);
}

Status Residency::begin_eviction(Chunk& chunk) {
  if (landing_ != nullptr) landing_->leaving(chunk);
  if (const auto saved = save(chunk); !saved) return saved;
  chunk.state = ChunkState::evicting;
  return Done{};
}

void Residency::take_back(Chunk& chunk) {
  drop_check(chunk);
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
    const auto unmapped = unmap(start, pieces, gone);
    if (!unmapped && gone == 0) return unmapped;
    // Half of it gone, the rest is of no use: who comes back to these addresses is refused by the driver.
    const auto left = pieces.begin() + static_cast<std::ptrdiff_t>(gone);
    pool_.give_back(Pieces(pieces.begin(), left));
    pool_.abandon(Pieces(left, pieces.end()));
    for (; first != next; ++first) {
      Chunk& chunk = **first;
      check_copy(chunk);
      chunk.pieces.clear();
      remove_mapped(chunk);
      if (chunk.live) ++evictions_;
      chunk.state = chunk.away();
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

void Residency::add_mapped(Chunk& chunk) {
  chunk.mapped_index = static_cast<std::uint32_t>(mapped_.size());
  mapped_.push_back(&chunk);
}

void Residency::remove_mapped(Chunk& chunk) {
  mapped_[chunk.mapped_index] = mapped_.back();
  mapped_[chunk.mapped_index]->mapped_index = chunk.mapped_index;
  mapped_.pop_back();
}

}  // namespace pooch::runtime
