// Carries out plans: evicts, prefetches, drops and replays at the positions that they name.
//
//   idle -- a boundary, and the phase has a plan --> following -- the last op --> idle
//   following -- an op that the plan does not expect, before it launches -->
//       what was dropped is replayed --> idle: demand mode until the next boundary
//
// Ops are matched by key before they launch. Nothing here guesses: plan actions that are impossible (no host
// memory, a call that cannot be kept) are left undone, and Demand supplies what is missing.
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "core/call.h"
#include "core/device.h"
#include "core/replay.h"
#include "runtime/execution/executor_parts.h"
#include "runtime/execution/iteration.h"
#include "runtime/execution/kept_call.h"
#include "runtime/execution/plan_book.h"
#include "runtime/execution/plan_layouts.h"
#include "runtime/execution/replay_memory.h"
#include "runtime/execution/verification.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"
#include "runtime/observe/iteration_clock.h"
#include "runtime/observe/known_phase.h"
#include "runtime/observe/nvtx.h"
#include "runtime/observe/trace.h"
#include "runtime/placement/departures.h"
#include "runtime/placement/placement.h"
#include "runtime/script/script.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

// The plan that most device time went into: predicted and measured.
struct PlanPace {
  const Plan* plan = nullptr;                  // until another is adopted
  double predicted_ms = 0;                     // per iteration
  std::optional<double> actual_ms;             // median, from the start of one to the start of the next
  std::uint64_t predicted_peak = 0, peak = 0;  // bytes of device memory, in iterations that followed a plan
};

// A plan that is to be followed.
struct Adoption {
  const Plan& plan;
  const KnownPhase& known;
  double out_us_per_byte = 0;  // of copies to the host, 0 where it is not known
  bool placed = true;          // it is to have a layout, its own or a later plan's
};

// What Executor::before did, and in which state.
struct ReadiedOp {
  std::optional<std::int32_t> position;  // where a plan is followed
  bool passes_by = false;                // ... which does not know the op
  std::uint64_t ops = 0, changes = 0;
};

class Executor {
 public:
  using Parts = ExecutorParts;
  explicit Executor(const Parts& parts)
      : parts_(parts),
        memory_(parts.temporaries, parts.residency, parts.departures),
        layouts_(parts, book_, memory_, clock_, iteration_),
        clock_(parts.device),
        tally_(parts.placement, parts.pool) {}
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;
  // From now on shows what is done in the timeline; nullptr: in none.
  void show_in(Trace* trace) { trace_ = trace; }
  // Called before a plan begins.
  void set_before_plans(std::function<Status(Held&)> prepare) { before_plans_ = std::move(prepare); }

  // The plan is followed from the phase's next iteration on and replaces the phase's earlier one. Error
  // invalid_argument: it is not of this phase, or would destroy content.
  Status adopt(tracker::PhaseIndex phase, const Adoption& of, Held& held);
  // The phase has a few ops more than the other, and follows its plan.
  void follow(tracker::PhaseIndex phase, tracker::PhaseIndex other, tracker::InsertedOps inserted) {
    book_.follow(phase, other, inserted);
  }
  bool follows_another(tracker::PhaseIndex phase) const { return book_.followed(phase).phase != phase; }
  // Where an allocation is made, in the phase whose plan is followed: its buffers have their addresses by
  // that.
  std::pair<tracker::PhaseIndex, std::uint64_t> counted_as(tracker::PhaseIndex phase,
                                                           std::uint64_t position) const;
  // Updates what is known of a phase that may have a plan; its structure must be the same.
  void refresh(tracker::PhaseIndex phase, const KnownPhase& known);
  // The phase's plan is to have a layout, and no current plan has one for the places where their phases'
  // buffers are by now, or it could not be taken: bytes that the next layout must do without. Once; then
  // nothing until a plan is adopted.
  std::optional<std::uint64_t> take_lack(tracker::PhaseIndex phase) { return layouts_.take_lack(phase); }
  // Tests whether they have a layout, as far as their phases are known; if not, take_lack() says so before an
  // iteration is spent.
  void try_layout() { layouts_.try_layout(); }
  // Layouts wait until a phase that came lately has places.
  bool awaits_places() const { return layouts_.awaits_places(); }
  // Plans of other phases that a layout must serve too.
  std::vector<const Plan*> plans_beside(tracker::PhaseIndex phase) const {
    return layouts_.plans_beside(phase);
  }
  // Adds to the profile where buffers lie. `known`: phases that may be in it.
  void add_places(Profile& profile, const std::vector<const KnownPhase*>& known) {
    layouts_.add_places(profile, known);
  }
  // Free ranges of the program's are forgotten. Not while aliased().
  void forget_places() { layouts_.forget_places(); }

  // Milliseconds of an iteration under the phase's plan, if Demand was asked for memory in several of them in
  // a row. Once per plan; else empty.
  std::optional<double> take_shortage(tracker::PhaseIndex phase);

  // Positions of ops that the phase's plan replayed by substitutes, for maps that then differed from what was
  // dropped. Since the last call.
  std::set<std::int32_t> take_disproved(tracker::PhaseIndex phase) { return book_.take_disproved(phase); }

  // Whether a layout is possible, as far as is known.
  bool may_place() const { return layouts_.may_place(); }

  using Readied = ReadiedOp;
  // An op is about to be launched in `stream`: carries out the plan's actions before it. May release `held`
  // and take it again. Error: content that the op may need cannot be recomputed; the op must not run.
  Result<Readied> before(const tracker::Op& op, StreamHandle stream, Held& held);
  // Whether other ops came in since, while the lock was released. The op may then have another position, or
  // need what the plan has dropped: call before() again.
  bool overtaken(const Readied& readied) const;
  // Whether the plan will replay the op at this position.
  bool wants_copy(std::int32_t position) const {
    return iteration_ != nullptr && iteration_->script.keeps(position);
  }
  void keep(std::int32_t position, const Call& call, const tracker::Op& op, std::unique_ptr<Replay> replay);
  // The op at this position was launched. Error: something stays on the device that should have left; nothing
  // else is wrong.
  Status after(std::int32_t position, const tracker::Op& op);

  // Gives everything private mappings, so that Demand can move it; does nothing if it has them. Error: the
  // program itself blocks a stream.
  Status dismantle(Held& held) { return layouts_.dismantle(held); }
  bool aliased() const { return layouts_.built(); }
  // Whether the program is within an iteration that follows a plan.
  bool follows() const { return iteration_ != nullptr; }

  // The allocation is about to end. Error: as for `before`.
  Status freeing(const Range& range, AllocationId allocation, Held& held);

  // The same for memory that the driver serves. True: replays that read it were launched just now.
  Result<bool> freeing_outside(AllocationId allocation, Held& held);

  // The allocation has ended: its memory is reused first.
  Status freed(Range& range) { return book_.empty() ? Status(Done{}) : memory_.let_go(range); }

  // Empty: no plan was followed.
  std::optional<PlanPace> pace();

  ExecutorCounts counts() const {
    ExecutorCounts counts = tally_.counts;
    counts.aliased = layouts_.made();
    counts.settled_after = std::max(counts.settled_after, layouts_.first_made_after());
    counts.moves = layouts_.moves();
    if (iteration_ != nullptr) counts.unplanned = tally_.unplanned();
    return counts;
  }

 private:
  // Plans begun or left, layouts made.
  std::uint64_t changes() const { return changes_ + layouts_.made(); }
  Status enter(const tracker::Iterations::Where& where, const PlanBook::Followed& plan, StreamHandle stream);
  Status evict_what_begins_away();
  Status leave(Held& held);
  void finish();
  void stop_following();

  Result<std::optional<std::int32_t>> lead_up_to(const tracker::Op& op, StreamHandle stream, Held& held);
  bool fits(const tracker::Iterations::Where& where, const tracker::Op& op);
  std::int32_t step_between_ops() const;
  Status pass_by(const tracker::Op& op, Held& held);
  Status act_before(std::int32_t position, const tracker::Op& op, StreamHandle stream, Held& held);
  Status evict(std::uint32_t map);
  Status drop(std::uint32_t map);
  bool can_be_made_again(const ScriptMap& map);
  // Waits for memory only for what `awaited` names.
  Status fetch_pending(std::span<const tracker::Operand> awaited, Held& held);
  std::uint64_t gather_missing(const BoundMap& bound, std::uint64_t up_to);
  Status fetch(const Iteration& of, const std::vector<ChunkUse>& uses, std::uint32_t map);

  // executor_replay.cpp
  bool is_spared(const ReplayPlace& place);
  Result<Range*> memory_for(const ReplayPlace& place);
  Status replay(std::uint32_t index, StreamHandle stream, Held& held);
  Status place_operands(const ScriptReplay& step, const KeptCall& kept);
  Result<bool> gather_operands(std::uint32_t index, const KeptCall& kept, Held& held);
  Status launch(const ScriptReplay& step, const KeptCall& kept, StreamHandle stream);
  Result<Range*> slot_memory(std::uint32_t slot);
  Status end_slots(const ScriptReplay& replay);
  Status end_stand_ins(Iteration& of);
  Status end_all_slots(Iteration& of);
  Status settle_restored(std::uint32_t index);

  // executor_feedback.cpp
  void note_shortage();
  static bool proving(const AdoptedPlan& adopted);

  // executor_verify.cpp
  AdoptedPlan* followed() { return iteration_ == nullptr ? nullptr : book_.of(iteration_->script); }
  Status prepare_verification(const Script& script, Held& held);
  Status settle_comparisons(Verification::Late late, Held& held);
  void give_up();
  void refuse(std::uint32_t map);
  bool refused(std::uint32_t map);
  bool leaves_alone(const ScriptReplay& step);
  bool makes_early_of_refused(std::uint32_t index);
  void fetch_refused(const ScriptReplay& step);

  const Parts parts_;
  PlanBook book_;
  std::shared_ptr<Iteration> iteration_;  // that follows a plan; nullptr: none
  // One thread at a time acts for a plan, host waits included. None waits for another thread of the program
  // meanwhile: see Departures::reclaim.
  Turn turn_;
  std::uint64_t changes_ = 0;  // plans begun or left
  std::function<Status(Held&)> before_plans_;
  std::optional<tracker::StepIndex> outgrown_;  // the iteration that began there is larger than its plan
  ReplayMemory memory_;
  PlanLayouts layouts_;
  IterationClock clock_;
  PlanTally tally_;
  Trace* trace_ = nullptr;
  nvtx::Iterations nvtx_iterations_;
  // Reused storage.
  std::vector<ChunkUse> uses_;
  ReplayCall call_;
};

}  // namespace pooch::runtime
