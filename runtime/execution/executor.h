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
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "core/call.h"
#include "core/device.h"
#include "core/replay.h"
#include "runtime/execution/alias.h"
#include "runtime/execution/feedback.h"
#include "runtime/execution/iteration.h"
#include "runtime/execution/prefetch_waits.h"
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

struct ExecutorCounts {
  std::uint64_t planned_iterations = 0;  // followed from their first op to their last
  std::uint64_t aliased_iterations = 0;  // of those, in alias mode
  std::uint64_t moves = 0;  // frames that were mapped for chunks which have others at other times
  std::uint64_t left = 0;   // plans left at an op that they did not expect
  std::uint64_t replays = 0;
  std::uint64_t substitutes = 0;       // of those, by substitutes
  std::uint64_t aliased = 0;           // times that alias mode was begun
  std::uint64_t unplanned = 0;         // times that Demand was asked for memory while a plan was followed
  std::uint64_t moved_prefetches = 0;  // moved ahead of the plan, because ops waited for them
  std::uint64_t undone_moves = 0;      // times that they were put back
};

// The plan that most device time went into: predicted and measured.
struct PlanPace {
  double predicted_ms = 0;                     // per iteration
  std::optional<double> actual_ms;             // median, from the start of one to the start of the next
  std::uint64_t predicted_peak = 0, peak = 0;  // bytes of device memory, in iterations that followed a plan
};

class Executor {
 public:
  struct Parts {
    StreamOrder& order;
    HandlePool& pool;
    Residency& residency;
    Departures& departures;
    Placement& placement;
    AddressSpace& temporaries;  // addresses for the temporary memory of replays
    const tracker::Tracker& tracker;
    Device& device;
    Verification& verification;
  };
  explicit Executor(const Parts& parts)
      : parts_(parts),
        alias_(parts.device, parts.order, parts.pool, parts.residency, parts.departures),
        clock_(parts.device),
        waits_(parts.device) {}
  // From now on shows what is done in the timeline; nullptr: in none.
  void show_in(Trace* trace) { trace_ = trace; }

  // The plan is followed from the phase's next iteration on and replaces the phase's earlier one. Error
  // invalid_argument: it is not of this phase, or would destroy content.
  Status adopt(tracker::PhaseIndex phase, const Plan& plan, const KnownPhase& known, double out_us_per_byte,
               Held& held);
  // Updates what is known of a phase that may have a plan; its structure must be the same.
  void refresh(tracker::PhaseIndex phase, const KnownPhase& known);
  // The phase's plan is for a layout, no current plan has one for the places where their phases' buffers are
  // by now, or it could not be taken, and so they are carried out by remapping: bytes that the next layout
  // must do without. Once; then nothing until a plan is adopted.
  std::optional<std::uint64_t> take_lack(tracker::PhaseIndex phase);
  // Tests whether they have a layout, as far as their phases are known; if not, take_lack() says so before an
  // iteration is spent.
  void try_layout();
  // Plans of other phases that a layout must serve too.
  std::vector<const Plan*> plans_beside(tracker::PhaseIndex phase) const;
  // Adds to the profile where buffers lie. `known`: phases that may be in it.
  void add_places(Profile& profile, const std::vector<const KnownPhase*>& known) const;

  // Milliseconds of an iteration under the phase's plan, if Demand was asked for memory in several of them in
  // a row. Once per plan; else empty.
  std::optional<double> take_shortage(tracker::PhaseIndex phase);

  // Positions of ops that the phase's plan replayed by substitutes, for maps that then differed from what was
  // dropped. Since the last call.
  std::set<std::int32_t> take_disproved(tracker::PhaseIndex phase);

  // Whether alias mode is possible, as far as is known.
  bool may_alias() const;

  // What before() did, and in which state.
  struct Readied {
    std::optional<std::int32_t> position;  // where a plan is followed
    std::uint64_t ops = 0, changes = 0;
  };
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
  Status dismantle(Held& held);
  bool aliased() const { return alias_.built(); }

  // The allocation is about to end. Error: as for `before`.
  Status freeing(const Range& range, AllocationId allocation, Held& held);

  // The same for memory that the driver serves. True: replays that read it were launched just now.
  Result<bool> freeing_outside(AllocationId allocation, Held& held);

  // The allocation has ended: its memory is reused first.
  Status freed(Range& range);

  // Empty: no plan was followed.
  std::optional<PlanPace> pace();

  ExecutorCounts counts() const {
    ExecutorCounts counts = tally_.counts;
    counts.moves = alias_.moves();
    if (iteration_ != nullptr) counts.unplanned = parts_.placement.fallbacks() - tally_.fallbacks_before;
    return counts;
  }

 private:
  struct Shortage {
    int iterations = 0;  // the latest ones in a row that Demand was asked in
    bool told = false;
  };
  struct Adopted {
    std::unique_ptr<const Script> script;
    KnownPhase known;
    bool alias = false;  // its plan is for alias mode
    Shortage shortage = {};
    MapTrust trust;
    double out_us_per_byte = 0;
    Feedback feedback;
    std::vector<Range*> slots = {};  // by slot, while it is laid out: the large ones
  };
  const Script* script_of(tracker::PhaseIndex phase) const;
  Status close_slots();
  Status idle(Held& held);
  Status settle_mappings(const Script* wanted, Held& held);
  Status build_alias(Held& held);
  std::vector<Adopted*> to_lay_out();
  AliasMode::Residents residents_of(const std::vector<Adopted*>& phases) const;
  Status open_slots(AliasMode::Residents& residents, const std::vector<Adopted*>& phases);
  std::pair<const PlanLayout*, std::uint64_t> layout_for(const AliasMode::Residents& residents,
                                                         const std::vector<Adopted*>& phases);
  void do_without_layout(const std::string& why, std::optional<std::uint64_t> lack);
  Status admit(std::int32_t step, std::span<const tracker::Operand> operands, Held& held);
  Status fetch_aliased(const Iteration::Pending& next, Held& held);
  template <class Ask>
  Status until_admitted(Held& held, std::string_view what, std::int32_t step, Ask&& ask);
  void enter(const tracker::Iterations::Where& where, const Script& script, StreamHandle stream);
  Status leave(Held& held);
  void finish();
  void stop_following();

  Result<std::optional<std::int32_t>> lead_up_to(const tracker::Op& op, StreamHandle stream, Held& held);
  std::int32_t step_between_ops() const;
  Status act_before(std::int32_t position, const tracker::Op& op, StreamHandle stream, Held& held);
  Status evict(std::uint32_t map);
  Status drop(std::uint32_t map);
  bool can_be_made_again(const ScriptMap& map);
  // Waits for memory only for what `awaited` names.
  Status fetch_pending(std::span<const tracker::Operand> awaited, Held& held);
  std::uint64_t gather_missing(const Iteration::Bound& bound, std::uint64_t up_to);
  Status fetch(const Iteration& of, const std::vector<ChunkUse>& uses, std::uint32_t map);

  // executor_replay.cpp
  bool is_spared(const ReplayPlace& place);
  Result<Range*> memory_for(const ReplayPlace& place);
  Status replay(std::uint32_t index, StreamHandle stream, Held& held);
  void find_addresses(const Iteration::Kept& kept);
  static void use_as_substitute(const Iteration::Kept& kept, std::vector<tracker::Operand>& operands);
  Status run_substitute(const ScriptReplay& step, const Substitute& by, StreamHandle stream);
  Result<Range*> slot_memory(std::uint32_t slot);
  Status end_slots(const ScriptReplay& replay);
  Status end_stand_ins(Iteration& of);
  Status end_all_slots(Iteration& of);
  Result<Range*> open_slot(std::uint64_t bytes);
  Status close_slot(Range& range);
  Status settle_restored(std::uint32_t index);

  // executor_feedback.cpp
  bool learn(tracker::PhaseIndex phase);
  void note_shortage();
  static bool proving(const Adopted& adopted);
  void begin_watch(tracker::PhaseIndex phase, Adopted& adopted, StreamHandle stream);
  void give_up_watch();
  void note_needed(std::span<const tracker::Operand> operands, StreamHandle stream);

  // executor_verify.cpp
  void begin_trust(tracker::PhaseIndex phase, Adopted& adopted);
  Adopted* followed();
  Status prepare_verification(const Script& script, Held& held);
  Status settle_comparisons(Verification::Late late, Held& held);
  void give_up();
  void refuse(std::uint32_t map);
  bool refused(std::uint32_t map);
  bool blame_substitutes(const Adopted& adopted, std::uint32_t map);
  bool leaves_alone(const ScriptReplay& step);
  bool makes_early_of_refused(std::uint32_t index);
  void fetch_refused(const ScriptReplay& step);

  // What is known of plans, by phase.
  struct Book {
    std::map<tracker::PhaseIndex, Adopted> scripts;
    std::vector<std::unique_ptr<const Script>> replaced;  // an iteration may still follow one
    bool unlaid = false;                                  // the current plans have no layout
    std::optional<std::uint64_t> lack;                    // ... and take_lack() has not said so yet
    std::map<tracker::PhaseIndex, std::set<std::uint32_t>> refused;   // buffers that are not to be dropped
    std::map<tracker::PhaseIndex, std::set<std::int32_t>> disproved;  // ops whose substitutes may be wrong
  };
  struct Tally {
    ExecutorCounts counts;
    std::uint64_t peak = 0;              // bytes, in iterations that followed a plan
    std::uint64_t fallbacks_before = 0;  // placement's, without those of such iterations
    std::uint64_t asked_before = 0;      // bytes, when this iteration began
    int unlaid = 0;                      // iterations begun without a layout since there was one
  };
  // Reused storage.
  struct Scratch {
    std::vector<ChunkUse> uses;
    std::vector<tracker::Operand> moved;
    std::vector<Address> addresses;
  };

  Parts parts_;
  Book book_;
  std::shared_ptr<Iteration> iteration_;  // that follows a plan; nullptr: none
  // One thread at a time acts for a plan, host waits included. None waits for another thread of the program
  // meanwhile: see Departures::reclaim.
  Turn turn_;
  std::uint64_t changes_ = 0;  // plans begun or left, layouts made
  AliasMode alias_;
  Range* small_slots_ = nullptr;  // memory for small slots; stays
  IterationClock clock_;
  PrefetchWaits waits_;
  std::optional<tracker::PhaseIndex> watched_;  // whose iteration `waits_` has
  Tally tally_;
  Trace* trace_ = nullptr;
  nvtx::Iterations nvtx_iterations_;
  Scratch scratch_;
};

}  // namespace pooch::runtime
