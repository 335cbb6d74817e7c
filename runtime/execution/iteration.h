// One iteration that follows a plan: how far it has come, where its maps lie, and which of its calls are
// kept. It exists until the iteration ends or the plan is left.
//
// A thread that waits for the device in the middle of it shares it with the executor. If another thread's op
// ends the iteration meanwhile, the waiting thread can still read what was kept, and then sees that another
// iteration is current, or none.
//
// The session's mutex guards it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/call.h"
#include "core/replay.h"
#include "runtime/execution/kept_call.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/residency.h"
#include "runtime/script/script.h"
#include "tracker/inserted_ops.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// Where a map of the script is this time.
struct BoundMap {
  Range* range = nullptr;  // nullptr: not touched yet, or its allocation has ended
  AllocationId allocation{};
  bool dropped = false;
  bool remade = false;  // was dropped, and is back
};

// A prefetch that waits for memory.
struct PendingFetch {
  std::uint32_t map;
  std::uint64_t up_to = ~std::uint64_t{0};  // bytes from its start
  friend bool operator==(const PendingFetch&, const PendingFetch&) = default;
};

struct Iteration {
  // It began with the step `start`; `now` is the step that comes next. `script` outlives it.
  // `inserted`: ops of it that the plan does not know.
  Iteration(const Script& script, tracker::StepIndex start, tracker::InsertedOps inserted,
            tracker::StepIndex now);

  // How many of the plan's ops have passed before the step.
  std::int32_t passed(tracker::StepIndex step) const {
    return inserted.without(static_cast<std::int32_t>(step - start));
  }
  // The op's position in the plan, which may not know it.
  std::optional<std::int32_t> position_of(tracker::StepIndex step) const {
    if (inserted.contains(static_cast<std::int32_t>(step - start))) return std::nullopt;
    return passed(step);
  }
  // The iteration turns out to have these ops in between. False: some of them should have passed.
  bool turns_out(tracker::InsertedOps other, tracker::StepIndex now);
  // An op that the plan does not know would change what replays read.
  bool spoils_replays(std::span<const tracker::Operand> operands) const;

  // The op at `position` touches these: binds the maps that no earlier op touched.
  void bind(std::int32_t position, std::span<const tracker::Operand> operands,
            const tracker::Allocations& live);
  // Binds the maps that are away at the beginning to where they were: `bases` by buffer, empty: not known.
  // Their fetches come before any op touches them. What else may lie there is moved in vain, and no more.
  void bind_what_is_away(std::span<const Address> bases, const tracker::Allocations& live);
  void keep(std::int32_t at, const Call& call, const tracker::Op& op, std::unique_ptr<Replay> replay);
  // Notes what the op did to its operand; replays that assume otherwise are skipped.
  void went_through(std::int32_t position, Clip clip);
  // The kept call of a replay; nullptr: none was kept.
  const KeptCall* kept_for(const ScriptReplay& replay) const;
  // The allocation ends, and so do its maps: calls `forget(map)` for each.
  template <class Forget>
  void end(AllocationId allocation, Forget&& forget) {
    for (std::uint32_t map = 0; map < maps.size(); ++map) {
      if (maps[map].allocation != allocation || maps[map].range == nullptr) continue;
      forget(map);
      if (maps[map].dropped) --dropped;
      maps[map] = {};
    }
  }

  bool touches_dropped(std::span<const tracker::Operand> operands) const;
  // Whether a replay that is still to come uses the allocation where it lies.
  bool feeds_dropped(AllocationId allocation) const;
  bool serves_dropped(const ScriptReplay& replay) const;
  // Whether a replay behind this one writes into the map as well. Then this one leaves an early version
  // there.
  bool restored_again_later(std::uint32_t replay, std::uint32_t map) const;
  bool awaits_fetch(std::span<const tracker::Operand> operands) const;
  // The parts of the map that its replays write, joined, as far as they are known.
  Verification::Extents extents_made(std::uint32_t map) const;

  const Script& script;
  const tracker::StepIndex start;
  tracker::InsertedOps inserted;
  const bool from_the_start;    // the plan is followed since the first op
  std::int32_t position;        // of the op whose actions `next_action` counts
  std::size_t next_action = 0;  // of those before it
  std::uint32_t next_replay = 0;
  std::size_t dropped = 0;                    // maps
  std::vector<BoundMap> maps;                 // by number
  std::map<std::int32_t, KeptCall> kept;      // by position
  std::deque<PendingFetch> pending;           // in the plan's order
  std::vector<Range*> slots;                  // temporary memory, by slot, where it exists now
  std::map<std::uint32_t, Range*> stand_ins;  // by spared map, as long as the replays before one op run
};

}  // namespace pooch::runtime
