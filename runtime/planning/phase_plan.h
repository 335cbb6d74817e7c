// How far the planning of one phase is, and what follows from what is seen: no I/O, nobody is asked.
//
//               asked for              one has come              proven, or not to be had
//   wanted -----------------> asked -----------------> proving ----------------------------> settled
//     ^  ^   none fits        |   |   there is none       |                                 ^   |
//     |  +--------------------+   +-----------------------|---------------------------------+   |
//     |                       |                           |                                     |
//     |                       | what it is for no longer holds, or it does not prove right      |
//     |  no planner is        v                           v                                     |
//     +--at work for it-- overtaken <-----------------------------------------------------------+
//                                       what it is for no longer holds, its layout cannot be had,
//                                       memory is short under it, or a substitute is disproved
//
//   wanted     no plan has been asked for. The phase follows the plan that it had before, if any
//   asked      the source looks for one, or a planner works
//   proving    one is there. If its substitutes are still being tried, it waits for some iterations
//   overtaken  another one is asked for as soon as no planner is at work for the last request
//   settled    the phase has its plan, or will have none
//
// A plan that is asked for because iterations are short of memory under the current one takes its place only
// if it is faster. Each cause of a new plan but changed times and disproved substitutes is bounded: see the
// constants.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>

#include "core/plan.h"
#include "runtime/observe/profiler.h"
#include "runtime/planning/basis.h"

namespace pooch::runtime {

// Plans that are asked for because the one before has no layout, or places have changed since. After that the
// phase's plans have none.
constexpr int most_layouts = 4;
constexpr int most_shortages = 4;  // plans for less memory
constexpr int most_waited = 8;     // iterations that a plan waits for its substitutes
constexpr int most_deferred = 3;  // iterations of a phase that no plan is asked for, as calls are being tried

// Why a plan for less memory was asked for.
struct Relief {
  double under_current_ms = 0;  // an iteration under the plan that it is to replace
  std::uint64_t bytes = 0;      // more that it leaves free
};

namespace stage {
struct Wanted {
  std::optional<Relief> relief = {};
};
struct Asked {
  Basis basis;
  std::optional<Relief> relief;
};
struct Proving {
  Basis basis;
  std::optional<Relief> relief;
  Plan plan;
  int waited = 0;  // iterations
};
struct Overtaken {
  Basis basis;
  std::optional<Relief> relief;
};
struct Settled {
  Basis basis;
};
}  // namespace stage
using Stage = std::variant<stage::Wanted, stage::Asked, stage::Proving, stage::Overtaken, stage::Settled>;

struct PhasePlan {
  Stage stage = stage::Wanted{};
  // Of the phase, whatever becomes of a plan:
  bool given = false;         // POOCH_PLAN is its plan, whatever is asked for
  bool fresh = false;         // plans in the cache are outdated
  bool crowded = false;       // no plan fits into what others leave
  bool untested = false;      // it is not known whether the plan that it follows can be laid out
  std::uint64_t lacking = 0;  // bytes that plans leave free, since there was less memory than was planned for
  int layouts = 0, shortages = 0, deferred = 0;  // so far

  bool settled() const { return std::holds_alternative<stage::Settled>(stage); }
  bool unplaced() const { return layouts > most_layouts; }  // for good
  // What its plan was asked for with; nullptr: none was.
  const Basis* basis() const;
  std::optional<Relief> relief() const;
};

// What is seen. In a stage that it says nothing about it changes nothing.
namespace seen {
struct StillHolds {  // what the plan is for
  std::uint64_t revision;
};
struct Changed {};  // it is for other times, or another structure
struct LayoutTested {};
struct LayoutLacks {    // settled; the plan's layout is not to be had
  std::uint64_t bytes;  // that the next must do without
};
struct Shortage {  // settled; several iterations in a row were short of memory under the plan
  double iteration_ms;
  std::uint64_t step;    // bytes: what the first plan for less leaves free besides
  std::uint64_t unseen;  // bytes that others take now
};
struct Disproved {};      // substitutes of the plan that is followed
struct SourceIdle {};     // no planner is at work for the phase, and no plan is there to be taken
struct TrialsPending {};  // calls like the phase's are being tried
struct Requested {
  Basis basis;
};
struct Came {
  Plan plan;
};
struct Judged {
  Profiler::Proof proof;
};
struct Adopted {};  // the executor has taken the plan
}  // namespace seen
using Event = std::variant<seen::StillHolds, seen::Changed, seen::LayoutTested, seen::LayoutLacks,
                           seen::Shortage, seen::Disproved, seen::SourceIdle, seen::TrialsPending,
                           seen::Requested, seen::Came, seen::Judged, seen::Adopted>;

// What is to be done about it.
struct Command {
  enum class Kind : std::uint8_t {
    none,
    wait,    // nothing more in this iteration
    forget,  // the request: another one will be made
    adopt,   // `plan`
    plan_for_less,
    plan_without,  // what was disproved
    plan_anew,     // the plan's substitutes were not seen to be right
    go_without,    // ... and there is no other plan
  };
  Kind kind = Kind::none;
  std::optional<Plan> plan = {};
};

struct Transition {
  PhasePlan phase;
  Command command = {};
};
Transition next(PhasePlan from, Event event);

}  // namespace pooch::runtime
