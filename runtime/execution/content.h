// Which content is where at every position of an iteration in which maps are dropped and made again: what a
// plan must not spoil. Worked out from positions alone.
//
// A map that was dropped is away until the ops that make it again have been replayed. No op may touch it
// meanwhile. What is read of it afterwards must have been made again or be newer, and nothing that the reader
// did not find over it without the plan may have been written over it since. Told in the order of execution:
// copy, begin_chain, replayed, run, drop, and end() behind the last op.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/plan.h"
#include "core/result.h"
#include "runtime/observe/known_phase.h"

namespace pooch::runtime {

class Content {
 public:
  // Neither may change: versions in the order in which they were written to one place.
  using Writes = std::vector<std::uint32_t>;

  explicit Content(const KnownPhase& phase);
  // A map that is dropped some time; its buffer must be the phase's. It is back with the replays before the
  // op at `returns`, or with the first that make all of it if that is `outside`.
  void add(const PlanMap& map, std::int32_t returns);

  // The host copies before the op at `p`, as far as they are known. Errors, here and below: invalid_argument.
  Status copy(std::int32_t p);
  // What is replayed before the op at `p`: it brings back the maps all of whose ops are among it.
  void begin_chain(std::int32_t p, const std::vector<PlanAction>& actions);
  // Whether the buffer's map comes back with the chain at hand, and is not back yet.
  bool returns(std::uint32_t buffer) const;
  // Into the memory of a map that comes back.
  void replayed(std::uint32_t buffer, std::int32_t op);
  // The program's op.
  Status run(std::int32_t p);
  void drop(std::uint32_t buffer);
  // What the next iteration may find.
  Status end() const;

  // Whether op `reader`, run before the op at `p`, finds the version where the program put it.
  bool in_place(std::uint32_t version, std::int32_t reader, std::int32_t p) const;
  // Whether the version is there still, for op `reader`. What was written later must be what lay over it when
  // that op first read it.
  bool intact(const Writes& writes, std::uint32_t version, std::int32_t reader) const;
  // Whether there is ever content in it.
  bool holds(std::uint32_t buffer) const { return !by_buffer_[buffer].empty(); }
  // Since the buffer's map was dropped.
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

  const KnownPhase& phase_;
  std::vector<std::vector<std::uint32_t>> by_buffer_;  // versions
  std::vector<std::int32_t> valid_before_;             // by version
  std::unordered_map<std::uint32_t, Map> maps_;        // by buffer
  std::size_t next_copy_ = 0;                          // of the profile's
};

}  // namespace pooch::runtime
