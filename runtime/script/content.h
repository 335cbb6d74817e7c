// Where content is at every position of an iteration with dropped and recomputed maps: shows whether a plan
// would destroy any. Uses positions alone.
//
// A dropped map is away until the ops that recompute it have been replayed. No op may touch it meanwhile.
// Later reads must find recomputed or newer content, with nothing written over it since that the reader would
// not have met without the plan. Call in the order of execution: copy, begin_chain, replayed, run, drop, and
// end() after the last op.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plan.h"
#include "core/profile.h"
#include "core/result.h"

namespace pooch::runtime {

class Content {
 public:
  // Versions, in the order in which they were written to one place.
  using Writes = std::vector<std::uint32_t>;

  // `phase` must outlive it, unchanged.
  explicit Content(const PhaseProfile& phase);
  // Adds a map that is dropped at some time; its buffer must be the phase's. It is back with the replays
  // before the op at `returns`; if that is `outside`, with the first replays that make all of it.
  void add(const PlanMap& map, std::int32_t returns);

  // The host copies before the op at `p`, as far as they are known. Errors, here and below: invalid_argument.
  Status copy(std::int32_t p);
  // The replays before the op at `p`: they bring back the maps whose ops are all among them.
  void begin_chain(std::int32_t p, const std::vector<PlanAction>& actions);
  // Whether the buffer's map comes back with the chain at hand, and is not back yet.
  bool returns(std::uint32_t buffer) const;
  // `op` was replayed into the memory of a returning map.
  void replayed(std::uint32_t buffer, std::int32_t op);
  // The program's op.
  Status run(std::int32_t p);
  void drop(std::uint32_t buffer);
  // Checks what the next iteration finds.
  Status end() const;

  // Whether op `reader`, run before the op at `p`, finds the version where the program put it.
  bool in_place(std::uint32_t version, std::int32_t reader, std::int32_t p) const;
  // Whether the version is intact for op `reader`: whatever was written over it later must already have been
  // there when that op first read it.
  bool intact(const Writes& writes, std::uint32_t version, std::int32_t reader) const;
  // Whether the buffer ever holds content.
  bool holds(std::uint32_t buffer) const { return !by_buffer_[buffer].empty(); }
  // The writes since the buffer's map was dropped.
  Writes& writes(std::uint32_t buffer) { return maps_.at(buffer).writes; }

 private:
  struct Map {
    std::uint32_t number = 0;         // in the plan
    std::vector<std::int32_t> by;     // ops that make it again
    std::int32_t returns = outside;   // with those before this op
    bool left = false, away = false;  // it was dropped; and is not back
    std::set<std::int32_t> missing;   // of `by`, until it is back; empty: it does not come back here
    Writes writes;
  };

  void find_validity();
  bool overlap(std::uint32_t a, std::uint32_t b) const;
  bool overwritten(std::uint32_t version) const;
  bool carries_over(std::uint32_t buffer) const;
  static Error spoilt(std::int32_t p, const Map& map);

  const PhaseProfile& phase_;
  std::vector<std::vector<std::uint32_t>> by_buffer_;  // versions
  std::vector<std::int32_t> valid_before_;             // by version
  std::unordered_map<std::uint32_t, Map> maps_;        // by buffer
  std::size_t next_copy_ = 0;                          // of the profile's
};

}  // namespace pooch::runtime
