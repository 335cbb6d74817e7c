// The plans that were adopted, by phase, and what following them has shown.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "runtime/execution/verification.h"
#include "runtime/memory/residency.h"
#include "runtime/observe/known_phase.h"
#include "runtime/script/script.h"
#include "tracker/inserted_ops.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

struct AdoptedPlan {
  std::unique_ptr<const Script> script;
  KnownPhase known;
  bool placed = false;  // it is to have a layout
  MapTrust trust = {};
  bool began = false;        // an iteration of the phase has followed a plan
  int short_iterations = 0;  // the latest ones in a row that Demand was asked in
  bool shortage_told = false;
  std::vector<Range*> slots = {};  // by slot, while it is laid out: the large ones
};

class PlanBook {
 public:
  using Plans = std::map<tracker::PhaseIndex, AdoptedPlan>;

  bool empty() const { return plans_.empty(); }
  Plans& all() { return plans_; }
  const Plans& all() const { return plans_; }
  // nullptr: the phase has none.
  AdoptedPlan* find(tracker::PhaseIndex phase);
  const AdoptedPlan* find(tracker::PhaseIndex phase) const;
  // What an iteration of the phase follows: its own plan, or that of a phase that has a few ops less. No
  // script: nothing.
  struct Followed {
    const Script* script = nullptr;
    tracker::PhaseIndex phase{};  // whose plan it is
    tracker::InsertedOps inserted = {};
  };
  Followed followed(tracker::PhaseIndex phase) const;
  // From now on iterations of the phase follow the other's plan, which has no such ops.
  void follow(tracker::PhaseIndex phase, tracker::PhaseIndex other, tracker::InsertedOps inserted) {
    others_.insert_or_assign(phase, Other{other, inserted});
  }
  // Whose current script it is; nullptr: it was replaced.
  AdoptedPlan* of(const Script& script);

  // The phase's plan from now on. What is known of its maps: put() after begin_trust().
  void put(tracker::PhaseIndex phase, AdoptedPlan plan);

  // What an earlier plan of the phase could not make again, this one does not drop either; what the one
  // before it was seen to make again in the same way needs no other proof.
  void begin_trust(tracker::PhaseIndex phase, AdoptedPlan& plan) const;
  // The buffer of the map differed from what was dropped: the substitutes that made it are to blame or, where
  // there were none, the calls; then no plan of the phase drops it any more.
  void blame(const AdoptedPlan& plan, std::uint32_t map);
  // Positions of ops whose substitutes were to blame since the last call.
  std::set<std::int32_t> take_disproved(tracker::PhaseIndex phase);

 private:
  struct Other {
    tracker::PhaseIndex phase;
    tracker::InsertedOps inserted;
  };

  Plans plans_;
  std::map<tracker::PhaseIndex, Other> others_;                     // by phase: the one whose plan it follows
  std::vector<std::unique_ptr<const Script>> replaced_;             // an iteration may still follow one
  std::map<tracker::PhaseIndex, std::set<std::uint32_t>> refused_;  // buffers that are not to be dropped
  std::map<tracker::PhaseIndex, std::set<std::int32_t>> disproved_;  // ops whose substitutes may be wrong
};

}  // namespace pooch::runtime
