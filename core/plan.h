// What to do in every iteration of a phase: each feature map's class, and the actions that carry it out, as
// ordered lists between ops. Written as JSON that a person can read; the planner writes it, the executor
// follows it, `pooch explain` shows it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "core/result.h"
#include "core/substitute.h"

namespace pooch {

enum class MapClass : std::uint8_t {
  keep,       // stays on the device
  swap,       // goes to the host after its last use in forward, comes back before its first in backward
  recompute,  // is dropped, and recomputed by replaying ops
};
std::string_view name(MapClass of);

struct PlanMap {
  std::uint32_t map = 0;     // its number in the actions
  std::string name;          // of the feature map, as in the profile's graph
  std::uint32_t buffer = 0;  // index into PhaseProfile::buffers
  std::uint64_t bytes = 0;   // of the whole map
  MapClass of = MapClass::keep;
  std::uint64_t moved = 0;       // swap: bytes from the map's start that are swapped; the rest stays
  std::vector<std::int32_t> by;  // recompute: positions of the ops that recompute it
  std::string why;
  double cost_ms = 0;  // what its class adds to the iteration, all other maps being as planned
  MapClass alternative = MapClass::keep;      // the best other class, keep excepted
  std::optional<double> alternative_cost_ms;  // empty: it is impossible, or was not tried
  // recompute: each replay that reads the map before the map returns recomputes it in temporary memory.
  // Otherwise it is back with the first replays that make all of it.
  bool brief = false;
  // swap: it is away at the end of the iteration, and at the beginning of the next. There it comes back
  // before it leaves again, or is freed; or not at all, where the next iteration frees it.
  bool across = false;
  // swap, not across: after its last use it leaves once more, and does not come back. Nobody writes it once
  // it is back, so that takes no copy; the next iteration frees it.
  bool leaves_again = false;
};

// A convolution for which the plan takes another algorithm than the program chose. This changes its numbers,
// so such a plan is never executed.
struct PlanAlgorithm {
  std::int32_t op = 0;  // position
  std::string name;     // of its layer, and the op's kind
  std::string takes;
  std::string instead_of;  // empty: not known
  double ms = 0, instead_of_ms = 0;
  std::uint64_t workspace = 0;  // bytes
};

// When something is expected to happen, from the start of the iteration.
struct PlanTime {
  double at_us = 0, takes_us = 0;
  double end_us() const { return at_us + takes_us; }
  friend bool operator==(const PlanTime&, const PlanTime&) = default;
};

struct PlanAction {
  enum class Kind : std::uint8_t { evict, prefetch, drop, replay };
  Kind kind = Kind::evict;
  std::uint32_t subject = 0;  // a map's number; replay: the position of the op
  // prefetch: end of the part fetched by now, in bytes from the map's start; 0: all that was swapped.
  std::uint64_t up_to = 0;
  // replay: by this substitute, not by the call (core/substitute.h).
  std::optional<Formula> formula = {};
  std::optional<PlanTime> time = {};  // of the copy or the replay; empty: not known

  friend bool operator==(const PlanAction&, const PlanAction&) = default;
};
std::string_view name(PlanAction::Kind kind);

struct Plan {
  int schema = 1;
  std::string phase, device, policy;
  std::string structure;  // of the profile that it was made from: structure_of(phase)
  std::uint64_t cap = 0;  // bytes of device memory that it was made for
  std::uint64_t seed = 0;
  double in_core_ms = 0;  // if there were memory enough
  double predicted_ms = 0;
  std::optional<double> bound_ms;         // no plan of this kind can be faster; empty: not computed
  std::uint64_t peak = 0;                 // bytes of device memory
  std::uint64_t host_bytes = 0;           // of all swapped maps
  std::vector<PlanMap> maps;              // ascending numbers
  std::vector<PlanAlgorithm> algorithms;  // ascending positions
  using Actions = std::map<std::int32_t, std::vector<PlanAction>>;
  Actions before, after;  // by position, in order
  // By position: when an op that has to wait is expected to start. All others follow the step before at once.
  std::map<std::int32_t, double> starts_us;
  // Where everything lies. Empty: it was not known where buffers lie, or there is no layout. Then memory is
  // mapped as maps move.
  std::optional<PlanLayout> layout;
};

std::string to_json(const Plan& plan);
// Error: invalid_argument with the path of the value that is wrong or missing, what it is and what is
// accepted. A plan that is returned has passed `check`.
Result<Plan> plan_from_json(std::string_view text);

// Checks what ties a plan's parts together, for any phase. Maps: in ascending order, each with a buffer of
// its own. Before an op, maps are fetched and earlier ops are replayed; after it, maps leave. Every swapped
// map leaves once and comes back afterwards (if it is away across the end: beforehand or not at all, or it
// comes back and is freed), whole or in pieces from its start; every recomputed map is dropped once, and each
// op that makes it is replayed afterwards; nothing else moves. Error: as above.
Status check(const Plan& plan);

}  // namespace pooch
