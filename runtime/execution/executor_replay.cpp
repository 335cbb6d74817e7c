// Making again what was dropped: where every operand of a kept call lies this time, and the call itself.
#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/execution/executor.h"

namespace pooch::runtime {

// The plan takes the operand's map for dropped, and it holds what the program's ops are going to read: a call
// that makes it was not kept, somebody was using it, or the plan was left before. Replays for other maps pass
// through it all the same.
bool Executor::is_spared(const ReplayPlace& place) {
  if (place.kind != ReplayPlace::Kind::original || place.map == ReplayPlace::no_map) return false;
  const Iteration::Bound& bound = iteration_->maps[place.map];
  return !bound.dropped && !bound.remade && !refused(place.map);
}

// nullptr: the operand lies where it was.
Result<Range*> Executor::memory_for(const ReplayPlace& place) {
  if (place.kind == ReplayPlace::Kind::temporary) return slot_memory(place.slot);
  if (!is_spared(place)) return nullptr;
  Range*& range = iteration_->stand_ins[place.map];
  if (range == nullptr) {
    const auto opened = open_slot(iteration_->script.life(iteration_->script.maps()[place.map].buffer).bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range;
}

// Temporary memory comes and goes in the same order in every iteration, so its addresses repeat and mostly
// are mapped still.
Result<Range*> Executor::slot_memory(std::uint32_t slot) {
  const Script& script = iteration_->script;
  const ReplaySlot& wanted = script.slots()[slot];
  Range*& range = wanted.small ? small_slots_ : iteration_->slots[slot];
  const bool outgrown = wanted.small && range != nullptr && range->bytes < script.small_bytes();
  if (outgrown)
    if (const auto closed = close_slot(*std::exchange(range, nullptr)); !closed) return closed.error();
  if (range == nullptr && !wanted.small && !followed()->slots.empty()) range = followed()->slots[slot];
  if (range == nullptr) {
    const auto opened = open_slot(wanted.small ? script.small_bytes() : wanted.bytes);
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
    Range* const range = std::exchange(iteration_->slots[slot], nullptr);
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
Status Executor::end_all_slots(Iteration& of) {
  for (Range*& open : of.slots)
    if (Range* const range = std::exchange(open, nullptr); range != nullptr)
      if (const auto closed = close_slot(*range); !closed) return closed;
  return end_stand_ins(of);
}

Status Executor::end_stand_ins(Iteration& of) {
  while (!of.stand_ins.empty()) {
    Range* const range = of.stand_ins.extract(of.stand_ins.begin()).mapped();
    if (range == nullptr) continue;
    if (const auto closed = close_slot(*range); !closed) return closed;
  }
  return Done{};
}

// By access of the call.
void Executor::find_addresses(const Iteration::Kept& kept) {
  scratch_.addresses.clear();
  for (std::size_t a = 0; a < kept.accesses.size(); ++a) {
    const std::uint32_t o = kept.operand_of[a];
    scratch_.addresses.push_back(o < scratch_.moved.size() ? scratch_.moved[o].base + scratch_.moved[o].offset
                                                           : kept.accesses[a]);
  }
}

// It reads the statistics, where the call wrote them, and touches nothing but what it reads and y.
void Executor::use_as_substitute(const Iteration::Kept& kept, std::vector<tracker::Operand>& operands) {
  const auto& at = kept.substitute->operands;
  for (std::uint32_t o = 0; o < operands.size(); ++o) {
    const auto is = [&](std::uint32_t access) { return kept.operand_of[access] == o; };
    const bool reads = is(at.x) || is(at.scale) || is(at.bias) || is(at.mean) || is(at.inverse);
    if (reads) operands[o].effect = Effect::read;
    if (!reads && !is(at.y)) operands[o].managed = false;
  }
}

Status Executor::run_substitute(const ScriptReplay& step, const Substitute& by, StreamHandle stream) {
  const auto at = [&](std::uint32_t access) { return scratch_.addresses[access]; };
  const auto& o = by.operands;
  ++tally_.counts.substitutes;
  return parts_.device.normalise({by.how,
                                  {at(o.x), at(o.y), at(o.scale), at(o.bias), at(o.mean), at(o.inverse)},
                                  *step.formula,
                                  step.clip},
                                 stream);
}

Status Executor::replay(std::uint32_t index, StreamHandle stream, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  const ScriptReplay& step = mine->script.replays()[index];
  const Iteration::Kept* const call = mine->kept_for(step);
  if (call == nullptr || !mine->serves_dropped(step) || leaves_alone(step)) return end_slots(step);
  const Iteration::Kept& kept = *call;
  // A layout has no place for what stands in for a map.
  if (alias_.built() && std::any_of(step.operands.begin(), step.operands.end(),
                                    [this](const ReplayPlace& place) { return is_spared(place); })) {
    log::info("alias mode ends at a replay of op {}", step.position);
    if (const auto apart = dismantle(held); !apart) return apart;
    if (iteration_ != mine) return Done{};  // another thread's op was its last
  }
  scratch_.moved = kept.operands;
  for (std::size_t o = 0; o < scratch_.moved.size(); ++o) {
    const ReplayPlace& place = step.operands[o];
    const auto range = memory_for(place);
    if (!range) return range.error();
    if (*range == nullptr) continue;
    scratch_.moved[o].base = (*range)->base;
    // Offsets within a small operand's buffer are kept as well.
    if (*range == small_slots_) scratch_.moved[o].offset += mine->script.slots()[place.slot].offset;
    scratch_.moved[o].managed = true;
    scratch_.moved[o].backing = *range;
  }
  if (step.formula) use_as_substitute(kept, scratch_.moved);
  if (mine->awaits_fetch(scratch_.moved))
    if (const auto fetched = fetch_pending(scratch_.moved, held); !fetched) return fetched;
  if (const auto admitted = admit(mine->script.step_of_replay(index), scratch_.moved, held); !admitted)
    return admitted;
  if (iteration_ != mine) return Done{};  // another thread's op was its last
  if (const auto placed = parts_.placement.place(kept.function, scratch_.moved, scratch_.uses, held); !placed)
    return placed;
  if (iteration_ != mine) return Done{};  // another thread's op was its last
  if (const auto there = Residency::has_content(scratch_.uses, /*remaking=*/true); !there) return there;
  const StreamIndex in = parts_.order.index(stream);
  for (const ChunkUse& use : scratch_.uses)
    if (const auto followed = parts_.order.follow(in, use.chunk->before); !followed) return followed;
  note_needed(scratch_.moved, stream);
  find_addresses(kept);
  const nvtx::Range range(nvtx::Category::replay, kept.function);
  const auto shown = trace_ == nullptr
                         ? Trace::none
                         : trace_->begin({TraceTrack::replays, kept.function, stream, step.position});
  const auto run = step.formula ? run_substitute(step, *kept.substitute, stream)
                                : kept.replay->run(scratch_.addresses, stream);
  if (trace_ != nullptr) trace_->end(shown);
  // Where it failed, a part of it may be under way all the same.
  const Mark mark = parts_.order.launched(in);
  if (!run) {
    for (ChunkUse& use : scratch_.uses) use.changes = false;  // what it should make is not made
    parts_.residency.used(scratch_.uses, mark, parts_.placement.clock());
    return run;
  }
  ++tally_.counts.replays;
  parts_.residency.used(scratch_.uses, mark, parts_.placement.clock());
  for (const ChunkUse& use : scratch_.uses)
    if (use.changes && use.chunk->occupied > 0) use.chunk->live = true;
  if (const auto restored = settle_restored(index); !restored) return restored;
  if (const auto ended = end_slots(step); !ended) return ended;
  return settle_comparisons(Verification::Late::where_known, held);
}

// A map is back when the last replay has written into it.
Status Executor::settle_restored(std::uint32_t index) {
  for (const std::uint32_t map : iteration_->script.replays()[index].restores) {
    Iteration::Bound& bound = iteration_->maps[map];
    if (!bound.dropped || iteration_->restored_again_later(index, map)) continue;
    bound.dropped = false;
    bound.remade = true;
    --iteration_->dropped;
    const Iteration::Kept& kept = *iteration_->kept_for(iteration_->script.replays()[index]);
    if (const auto noted = parts_.verification.restored(map, kept.function); !noted) return noted;
  }
  return Done{};
}

}  // namespace pooch::runtime
