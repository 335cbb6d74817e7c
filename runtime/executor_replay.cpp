// Making again what was dropped: where every operand of a kept call lies this time, and the call itself.
#include <algorithm>
#include <utility>

#include "runtime/executor.h"

namespace pooch::runtime {

bool Executor::serves_dropped(const ScriptReplay& replay) const {
  return std::any_of(replay.serves.begin(), replay.serves.end(),
                     [&](std::uint32_t map) { return maps_[map].dropped; });
}

// Temporary memory comes and goes in the same order in every iteration, so its addresses repeat and mostly
// are mapped still.
Result<Address> Executor::slot_address(std::uint32_t slot) {
  const ReplaySlot& wanted = script_->slots()[slot];
  Range*& range = wanted.small ? small_slots_ : slot_ranges_[slot];
  if (wanted.small && range != nullptr && range->bytes < script_->small_bytes()) range = nullptr;  // outgrown
  if (range == nullptr && !wanted.small && !followed()->slots.empty()) range = followed()->slots[slot];
  if (range == nullptr) {
    const auto opened = open_slot(wanted.small ? script_->small_bytes() : wanted.bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range->base + (wanted.small ? wanted.offset : 0);
}

Result<Range*> Executor::open_slot(std::uint64_t bytes) {
  const auto address = parts_.temporaries.allocate(round_up(bytes, page));
  if (!address) return Error{ErrorCode::out_of_memory, "the address space for temporary memory is exhausted"};
  return &parts_.residency.open(*address, round_up(bytes, page), AllocationId::none, bytes);
}

Status Executor::close_slot(Range& range) {
  parts_.departures.forget(range);
  parts_.residency.close(range, {});
  if (const auto given = freed(range); !given) return given;
  parts_.temporaries.free(range.base, range.bytes);
  return Done{};
}

Status Executor::end_slots(const ScriptReplay& step) {
  const auto& laid_out = followed()->slots;
  for (const std::uint32_t slot : step.ends) {
    Range* const range = std::exchange(slot_ranges_[slot], nullptr);
    if (range == nullptr) continue;
    if (!laid_out.empty() && laid_out[slot] == range) {
      for (Chunk& chunk : range->chunks) chunk.live = false;
    } else if (const auto closed = close_slot(*range); !closed) {
      return closed;
    }
  }
  return Done{};
}

// A plan that is left may have some that its later replays would have ended.
Status Executor::end_all_slots() {
  for (Range*& open : slot_ranges_)
    if (Range* const range = std::exchange(open, nullptr); range != nullptr)
      if (const auto closed = close_slot(*range); !closed) return closed;
  return Done{};
}

Status Executor::replay(std::uint32_t index, StreamHandle stream, std::unique_lock<std::mutex>& lock) {
  const Script* const script = script_;
  const ScriptReplay& step = script->replays()[index];
  const auto found = kept_.find(step.position);
  if (!serves_dropped(step) || leaves_alone(step) || found == kept_.end()) {
    return end_slots(step);
  }
  const Kept& kept = found->second;
  moved_ = kept.operands;
  for (std::size_t o = 0; o < moved_.size(); ++o) {
    const ReplayPlace& place = step.operands[o];
    if (place.kind == ReplayPlace::Kind::original) continue;
    const auto address = slot_address(place.slot);
    if (!address) return address.error();
    const ReplaySlot& slot = script_->slots()[place.slot];
    Range* const range = slot.small ? small_slots_ : slot_ranges_[place.slot];
    // Offsets within a small operand's buffer are kept as well.
    moved_[o].base = range->base;
    moved_[o].offset += slot.small ? slot.offset : 0;
    moved_[o].managed = true;
    moved_[o].backing = range;
  }
  if (awaits_fetch(moved_))
    if (const auto fetched = fetch_pending(moved_, lock); !fetched) return fetched;
  if (const auto admitted = admit(position_, moved_, lock); !admitted) return admitted;
  if (const auto placed = parts_.placement.place(kept.function, moved_, uses_, lock); !placed) return placed;
  if (script_ != script) return Done{};  // another thread's op was its last
  if (const auto there = Residency::has_content(uses_, /*remaking=*/true); !there) return there;
  const StreamIndex in = parts_.order.index(stream);
  for (const ChunkUse& use : uses_)
    if (const auto followed = parts_.order.follow(in, use.chunk->before); !followed) return followed;
  note_needed(moved_, stream);
  addresses_.clear();
  for (std::size_t a = 0; a < kept.accesses.size(); ++a) {
    const std::uint32_t o = kept.operand_of[a];
    addresses_.push_back(o < moved_.size() ? moved_[o].base + moved_[o].offset : kept.accesses[a]);
  }
  const nvtx::Range range(nvtx::Category::replay, kept.function);
  const auto shown = trace_ == nullptr
                         ? Trace::none
                         : trace_->begin({TraceTrack::replays, kept.function, stream, step.position});
  const auto run = kept.replay->run(addresses_, stream);
  if (trace_ != nullptr) trace_->end(shown);
  // Where it failed, a part of it may be under way all the same.
  const Mark mark = parts_.order.launched(in);
  if (!run) {
    for (ChunkUse& use : uses_) use.changes = false;  // what it should make is not made
    parts_.residency.used(uses_, mark, parts_.placement.clock());
    return run;
  }
  ++counts_.replays;
  parts_.residency.used(uses_, mark, parts_.placement.clock());
  for (const ChunkUse& use : uses_)
    if (use.changes && use.chunk->occupied > 0) use.chunk->live = true;
  if (const auto restored = settle_restored(index); !restored) return restored;
  if (const auto ended = end_slots(step); !ended) return ended;
  return settle_comparisons(lock);
}

// A map is back when the last replay has written into it.
Status Executor::settle_restored(std::uint32_t index) {
  for (const std::uint32_t map : script_->replays()[index].restores) {
    if (!maps_[map].dropped) continue;
    const auto& chain = script_->maps()[map].chain;
    const bool more = std::any_of(chain.begin(), chain.end(), [&](std::uint32_t later) {
      const auto& restores = script_->replays()[later].restores;
      return later > index && std::find(restores.begin(), restores.end(), map) != restores.end();
    });
    if (more) continue;
    maps_[map].dropped = false;
    --dropped_;
    const Kept& kept = kept_.at(script_->replays()[index].position);
    if (const auto noted = parts_.verification.restored(map, kept.function); !noted) return noted;
  }
  return Done{};
}

}  // namespace pooch::runtime
