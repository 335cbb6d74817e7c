// Moves memory ahead of need for ops that no plan covers.
//
// What will be touched soonest comes in, in that order; what will be touched last makes way for it, and is
// copied out before its memory is needed. Where nothing is foreseen, nothing is moved ahead: then Demand
// alone decides, at need.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/placement/departures.h"
#include "runtime/placement/foresight.h"
#include "runtime/placement/placement.h"
#include "runtime/placement/remaker.h"

namespace pooch::runtime {

// Bytes of an operand that is expected to be touched.
struct Needs {
  std::uint64_t dropped = 0;  // bytes that will be made again
  std::uint64_t missing = 0;  // bytes that are on the host alone
  std::uint64_t clean = 0;    // ... on the device, and on the host as well
  std::uint64_t early = 0;    // ... on the device because they were fetched for this
};

// What is known of the ops to come, up to the one at hand. In bytes.
struct Outlook {
  std::int64_t spare = 0;      // memory at that op that is free, or will be without a copy
  std::int64_t least = 0;      // the least of it from now until then
  std::uint64_t may_come = 0;  // how much more may be fetched early
  std::uint64_t lacking = 0;   // what is to be fetched and has no memory yet
  OpNumber lacking_at = 0;     // the first op that needs such
  void take(std::uint64_t bytes) {
    spare -= static_cast<std::int64_t>(bytes);
    least = std::min(least, spare);
  }
};

class Streaming {
 public:
  Streaming(HandlePool& pool, StreamOrder& order, Residency& residency, Departures& departures,
            Placement& placement, Foresight& foresight)
      : pool_(pool),
        order_(order),
        residency_(residency),
        departures_(departures),
        placement_(placement),
        foresight_(foresight) {}

  // From now on asks whether content is dropped in place of copied.
  void ask(Remaker* remaker) { remaker_ = remaker; }

  // An op was launched that no plan covers; `uses`: its chunks.
  void passed(const tracker::Op& op, const std::vector<ChunkUse>& uses);
  // Moves what is foreseen to be needed. Error: device.
  Status move_ahead(Held& held);

 private:
  enum class Content : std::uint8_t { without_copy, dirty };

  Status see_to(OpNumber when, const Expected& expected, Outlook& outlook, Held& held);
  Result<std::uint64_t> fetch(const Expected& what, std::uint64_t most, Held& held);
  Needs gather_missing(const Expected& what);
  std::uint64_t whole_chunks(std::uint64_t most) const;
  bool can_leave(const Chunk& chunk, Content content) const;
  std::uint64_t bytes_without_copy() const;
  // Begins evictions: dead content first, then what is touched after `after` only, the last first.
  Status send_away(std::uint64_t bytes, Content content, OpNumber after);
  Result<std::uint64_t> begin(Chunk& chunk, Content content);

  HandlePool& pool_;
  StreamOrder& order_;
  Residency& residency_;
  Departures& departures_;
  Placement& placement_;
  Foresight& foresight_;
  Remaker* remaker_ = nullptr;
  std::multimap<OpNumber, Expected> expected_;  // by when
  std::vector<ChunkUse> missing_;               // reused storage
  std::vector<Chunk*> leaving_;                 // reused storage
};

}  // namespace pooch::runtime
