// Making again what was dropped: where every operand of a kept call lies this time, and the call itself.
#include <algorithm>
#include <utility>

#include "core/log.h"
#include "runtime/execution/executor.h"
#include "runtime/execution/replay_launch.h"

namespace pooch::runtime {

// The plan takes the operand's map for dropped, and it holds what the program's ops are going to read: a call
// that makes it was not kept, somebody was using it, or the plan was left before. Replays for other maps pass
// through it all the same.
bool Executor::is_spared(const ReplayPlace& place) {
  if (place.kind != ReplayPlace::Kind::original || place.map == ReplayPlace::no_map) return false;
  const BoundMap& bound = iteration_->maps[place.map];
  return !bound.dropped && !bound.remade && !refused(place.map);
}

// nullptr: the operand lies where it was.
Result<Range*> Executor::memory_for(const ReplayPlace& place) {
  if (place.kind == ReplayPlace::Kind::temporary) return slot_memory(place.slot);
  if (!is_spared(place)) return nullptr;
  Range*& range = iteration_->stand_ins[place.map];
  if (range == nullptr) {
    const auto opened =
        memory_.open(iteration_->script.life(iteration_->script.maps()[place.map].buffer).bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range;
}

Result<Range*> Executor::slot_memory(std::uint32_t slot) {
  const Script& script = iteration_->script;
  const ReplaySlot& wanted = script.slots()[slot];
  if (wanted.small) return memory_.small(script.small_bytes());
  Range*& range = iteration_->slots[slot];
  if (range == nullptr && !followed()->slots.empty()) range = followed()->slots[slot];
  if (range == nullptr) {
    const auto opened = memory_.open(wanted.bytes);
    if (!opened) return opened.error();
    range = *opened;
  }
  return range;
}

Status Executor::end_slots(const ScriptReplay& step) {
  const auto& laid_out = followed()->slots;
  for (const std::uint32_t slot : step.ends) {
    Range* const range = std::exchange(iteration_->slots[slot], nullptr);
    if (range == nullptr) continue;
    if (!laid_out.empty() && laid_out[slot] == range) {
      for (Chunk& chunk : range->chunks) chunk.live = false;
    } else if (const auto closed = memory_.close(*range); !closed) {
      return closed;
    }
  }
  return Done{};
}

// A plan that is left may have some that its later replays would have ended.
Status Executor::end_all_slots(Iteration& of) {
  for (Range*& open : of.slots)
    if (Range* const range = std::exchange(open, nullptr); range != nullptr)
      if (const auto closed = memory_.close(*range); !closed) return closed;
  return end_stand_ins(of);
}

Status Executor::end_stand_ins(Iteration& of) {
  while (!of.stand_ins.empty()) {
    Range* const range = of.stand_ins.extract(of.stand_ins.begin()).mapped();
    if (range == nullptr) continue;
    if (const auto closed = memory_.close(*range); !closed) return closed;
  }
  return Done{};
}

Status Executor::replay(std::uint32_t index, StreamHandle stream, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  const ScriptReplay& step = mine->script.replays()[index];
  const KeptCall* const kept = mine->kept_for(step);
  if (kept == nullptr || !mine->serves_dropped(step) || leaves_alone(step)) return end_slots(step);
  // A layout has no place for what stands in for a map.
  if (aliased() && std::any_of(step.operands.begin(), step.operands.end(),
                               [this](const ReplayPlace& place) { return is_spared(place); })) {
    log::info("alias mode ends at a replay of op {}", step.position);
    if (const auto apart = dismantle(held); !apart) return apart;
    if (iteration_ != mine) return Done{};  // another thread's op was its last
  }
  if (const auto placed = place_operands(step, *kept); !placed) return placed;
  const auto gathered = gather_operands(index, *kept, held);
  if (!gathered) return gathered.error();
  if (!*gathered) return Done{};
  if (const auto launched = launch(step, *kept, stream); !launched) return launched;
  if (const auto restored = settle_restored(index); !restored) return restored;
  if (const auto ended = end_slots(step); !ended) return ended;
  return settle_comparisons(Verification::Late::where_known, held);
}

// Where they lie this time.
Status Executor::place_operands(const ScriptReplay& step, const KeptCall& kept) {
  call_.begin(kept);
  for (std::size_t o = 0; o < kept.operands.size(); ++o) {
    const ReplayPlace& place = step.operands[o];
    const auto range = memory_for(place);
    if (!range) return range.error();
    if (*range == nullptr) continue;
    // Offsets within a small operand's buffer are kept as well.
    const bool small = memory_.is_small(**range);
    call_.place(o, **range, small ? iteration_->script.slots()[place.slot].offset : 0);
  }
  if (step.formula) call_.use_substitute(kept);
  return Done{};
}

// Brings them onto the device. False: another thread's op was the iteration's last.
Result<bool> Executor::gather_operands(std::uint32_t index, const KeptCall& kept, Held& held) {
  const std::shared_ptr<Iteration> mine = iteration_;
  if (mine->awaits_fetch(call_.operands()))
    if (const auto fetched = fetch_pending(call_.operands(), held); !fetched) return fetched.error();
  if (const auto admitted = layouts_.admit(mine->script.step_of_replay(index), call_.operands(), held);
      !admitted)
    return admitted.error();
  if (iteration_ != mine) return false;
  if (const auto placed = parts_.placement.place(kept.function, call_.operands(), uses_, held); !placed)
    return placed.error();
  if (iteration_ != mine) return false;
  if (const auto there = Residency::has_content(uses_, /*remaking=*/true); !there) return there.error();
  return true;
}

Status Executor::launch(const ScriptReplay& step, const KeptCall& kept, StreamHandle stream) {
  const auto launched = launch_replay(parts_, {call_, kept, &step, stream}, uses_, trace_);
  if (!launched) return launched.error();
  if (step.formula) ++tally_.counts.substitutes;
  ++tally_.counts.replays;
  return Done{};
}

// A map is back when the last replay has written into it.
Status Executor::settle_restored(std::uint32_t index) {
  for (const std::uint32_t map : iteration_->script.replays()[index].restores) {
    BoundMap& bound = iteration_->maps[map];
    if (!bound.dropped || iteration_->restored_again_later(index, map)) continue;
    bound.dropped = false;
    bound.remade = true;
    --iteration_->dropped;
    const KeptCall& kept = *iteration_->kept_for(iteration_->script.replays()[index]);
    if (const auto noted = parts_.verification.restored(map, kept.function); !noted) return noted;
  }
  return Done{};
}

}  // namespace pooch::runtime
