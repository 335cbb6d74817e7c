// When plans are carried out by a layout, by which, and when without one.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/execution/alias.h"
#include "runtime/execution/executor_parts.h"
#include "runtime/execution/iteration.h"
#include "runtime/execution/own_places.h"
#include "runtime/execution/plan_book.h"
#include "runtime/execution/replay_memory.h"
#include "runtime/memory/held.h"
#include "runtime/observe/iteration_clock.h"

namespace pooch::runtime {

// Iterations begun one after the other, of phases whose places are known.
struct PlacedIterations {
  int now = 0, before = 0;  // that go on, and those before an iteration of another phase came
};

// That no layout could be had.
struct LayoutLack {
  std::optional<std::uint64_t> bytes;        // ... and PlanLayouts::take_lack() has not said so yet
  std::uint64_t since = 0;                   // iterations begun by then
  std::map<tracker::PhaseIndex, int> taken;  // how often who was told
};

struct LayoutsMade {
  std::uint64_t count = 0;
  std::uint64_t first_after = 0;  // iterations
};

class PlanLayouts {
 public:
  // `current`: the iteration that follows a plan, as the executor has it.
  PlanLayouts(const ExecutorParts& parts, PlanBook& book, ReplayMemory& memory, IterationClock& clock,
              const std::shared_ptr<Iteration>& current)
      : parts_(parts),
        book_(book),
        memory_(memory),
        clock_(clock),
        current_(current),
        own_(parts.space, parts.residency),
        alias_(parts.device, parts.order, parts.pool, parts.residency, parts.departures) {}

  bool built() const { return alias_.built(); }
  std::uint64_t made() const { return made_.count; }                    // layouts that were built
  std::uint64_t first_made_after() const { return made_.first_after; }  // iterations
  std::uint64_t moves() const { return alias_.moves(); }  // frames that were mapped anew for a chunk
  // Whether a layout is possible, as far as is known.
  bool may_place() const;
  // Phases come in turn, and where the buffers of one lie is not known yet: it is to be part of the layout.
  // One that comes between many others, such as a validation, is not waited for.
  bool awaits_places() const;

  // Before an iteration: the mappings that its plan wants. May release `held`.
  Status settle(const Script* wanted, Held& held);
  // It begins.
  void begin_iteration(const Script& script);
  // Private mappings, if there are others. May release `held`. Error: the program itself blocks a stream.
  Status dismantle(Held& held);
  // Another plan may bring a layout.
  void reconsider();
  // Executor::add_places, forget_places, take_lack, try_layout and plans_beside.
  void add_places(Profile& profile, std::vector<const KnownPhase*> known);
  void forget_places() { own_.forget(); }
  std::optional<std::uint64_t> take_lack(tracker::PhaseIndex phase);
  void try_layout();
  std::vector<const Plan*> plans_beside(tracker::PhaseIndex phase) const;

  // Each of the operands has the frames that the layout gives it now, or there is no layout any more. May
  // release `held`.
  Status admit(std::int32_t step, std::span<const tracker::Operand> operands, Held& held);
  // The same for a prefetch, whose content comes back.
  Status fetch(const PendingFetch& next, Held& held);

 private:
  Status idle(Held& held);
  Status build(Held& held);
  bool takes_part(tracker::PhaseIndex phase, const AdoptedPlan& plan) const;
  std::vector<AdoptedPlan*> to_lay_out();
  AliasMode::Residents residents_of(const std::vector<AdoptedPlan*>& plans);
  std::pair<const PlanLayout*, std::uint64_t> layout_for(const AliasMode::Residents& residents,
                                                         const std::vector<AdoptedPlan*>& plans);
  void do_without(const std::string& why, std::optional<std::uint64_t> lack);
  Status open_slots(AliasMode::Residents& residents, const std::vector<AdoptedPlan*>& plans);
  Status close_slots();
  template <class Ask>
  Status until_admitted(Held& held, std::string_view what, std::int32_t step, Ask&& ask);

  const ExecutorParts parts_;
  PlanBook& book_;
  ReplayMemory& memory_;
  IterationClock& clock_;
  const std::shared_ptr<Iteration>& current_;
  OwnPlaces own_;
  AliasMode alias_;
  bool unlaid_ = false;  // the current plans have no layout
  LayoutLack lack_;
  LayoutsMade made_;
  std::uint64_t in_vain_ = 0;     // of those, how many served few iterations
  int served_ = 0;                // iterations begun with the current one
  int iterations_without_ = 0;    // begun since there was a layout
  std::uint64_t iterations_ = 0;  // begun
  PlacedIterations placed_in_a_row_;
};

}  // namespace pooch::runtime
