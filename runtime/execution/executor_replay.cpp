// Making again what was dropped: where every operand of a kept call lies this time, and the call itself.
#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/execution/executor.h"

namespace pooch::runtime {

bool Executor::serves_dropped(const ScriptReplay& replay) const {
  return std::any_of(replay.serves.begin(), replay.serves.end(),
                     [&](std::uint32_t map) { return maps_[map].dropped; });
}

// Does a replay behind this one write into the map as well? Then this one leaves an early version there.
bool Executor::restored_again_later(std::uint32_t index, std::uint32_t map) const {
  const auto& chain = script_->maps()[map].chain;
  return std::any_of(chain.begin(), chain.end(), [&](std::uint32_t later) {
    const auto& restores = script_->replays()[later].restores;
    return later > index && std::find(restores.begin(), restores.end(), map) != restores.end();
  });
}

// The plan takes the operand's map for dropped, and it holds what the program's ops are going to read: a call
// that makes it was not kept, somebody was using it, or the plan was left before. Replays for other maps pass
// through it all the same.
bool Executor::is_spared(const ReplayPlace& place) {
  if (place.kind != ReplayPlace::Kind::original || place.map == ReplayPlace::no_map) return false;
  const Bound& bound = maps_[place.map];
  return !bound.dropped && !bound.remade && !refused(place.map);
}

// nullptr: the operand lies where it was.
Result<Range*> Executor::memory_for(const ReplayPlace& place) {
  if (place.kind == ReplayPlace::Kind::temporary) return slot_memory(place.slot);
  if (!is_spared(place)) return nullptr;
  Range*& range = stand_ins_[place.map];
  if (range == nullptr) {
    const auto opened = open_slot(script_->life(script_->maps()[place.map].buffer).bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range;
}

// Temporary memory comes and goes in the same order in every iteration, so its addresses repeat and mostly
// are mapped still.
Result<Range*> Executor::slot_memory(std::uint32_t slot) {
  const ReplaySlot& wanted = script_->slots()[slot];
  Range*& range = wanted.small ? small_slots_ : slot_ranges_[slot];
  if (wanted.small && range != nullptr && range->bytes < script_->small_bytes()) range = nullptr;  // outgrown
  if (range == nullptr && !wanted.small && !followed()->slots.empty()) range = followed()->slots[slot];
  if (range == nullptr) {
    const auto opened = open_slot(wanted.small ? script_->small_bytes() : wanted.bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range;
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
  return end_stand_ins();
}

Status Executor::end_stand_ins() {
  while (!stand_ins_.empty()) {
    Range* const range = stand_ins_.extract(stand_ins_.begin()).mapped();
    if (range == nullptr) continue;
    if (const auto closed = close_slot(*range); !closed) return closed;
  }
  return Done{};
}

Status Executor::replay(std::uint32_t index, StreamHandle stream, Held& held) {
  const Script* const script = script_;
  const ScriptReplay& step = script->replays()[index];
  const auto found = kept_.find(step.position);
  if (!serves_dropped(step) || leaves_alone(step) || found == kept_.end()) {
    return end_slots(step);
  }
  const Kept& kept = found->second;
  // A layout has no place for what stands in for a map.
  if (alias_.built() && std::any_of(step.operands.begin(), step.operands.end(),
                                    [this](const ReplayPlace& place) { return is_spared(place); })) {
    log::info("alias mode ends at a replay of op {}", step.position);
    if (const auto apart = dismantle(held); !apart) return apart;
    if (script_ != script) return Done{};  // another thread's op was its last
  }
  moved_ = kept.operands;
  for (std::size_t o = 0; o < moved_.size(); ++o) {
    const ReplayPlace& place = step.operands[o];
    const auto range = memory_for(place);
    if (!range) return range.error();
    if (*range == nullptr) continue;
    moved_[o].base = (*range)->base;
    // Offsets within a small operand's buffer are kept as well.
    if (*range == small_slots_) moved_[o].offset += script->slots()[place.slot].offset;
    moved_[o].managed = true;
    moved_[o].backing = *range;
  }
  if (awaits_fetch(moved_))
    if (const auto fetched = fetch_pending(moved_, held); !fetched) return fetched;
  if (const auto admitted = admit(position_, moved_, held); !admitted) return admitted;
  if (const auto placed = parts_.placement.place(kept.function, moved_, uses_, held); !placed) return placed;
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
  return settle_comparisons(held);
}

// A map is back when the last replay has written into it.
Status Executor::settle_restored(std::uint32_t index) {
  for (const std::uint32_t map : script_->replays()[index].restores) {
    if (!maps_[map].dropped) continue;
    if (restored_again_later(index, map)) continue;
    maps_[map].dropped = false;
    maps_[map].remade = true;
    --dropped_;
    const Kept& kept = kept_.at(script_->replays()[index].position);
    if (const auto noted = parts_.verification.restored(map, kept.function); !noted) return noted;
  }
  return Done{};
}

}  // namespace pooch::runtime
