// Chunks on their way out, in the order in which a plan sent them: the memory that comes free next.
//
// A plan's evictions begin long before their memory is needed. Unmapping waits until then: mostly the copy
// has ended by that time and the host does not wait at all.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "runtime/memory/handle_pool.h"
#include "runtime/memory/held.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

class Departures {
 public:
  Departures(Device& device, StreamOrder& order, HandlePool& pool, Residency& residency)
      : device_(device), order_(order), pool_(pool), residency_(residency) {}

  // A chunk for which Residency::begin_eviction or begin_drop was called.
  void add(Chunk& chunk) { leaving_.push_back(&chunk); }
  // The range is about to be closed.
  void forget(const Range& range);
  // Forgets those that have gone or were taken back.
  void forget_all() {
    std::erase_if(leaving_, [](const Chunk* chunk) { return chunk->state != ChunkState::evicting; });
  }

  // Unmaps finished chunks whose handles have the sizes that these uses lack, so that none need be created.
  Status take_matching(const std::vector<ChunkUse>& uses);

  enum class Wait : bool { no, yes };
  // Unmaps until the pool has `bytes` available. False: it has not, and nothing more can be had, or
  // only by waiting. With Wait::yes the host waits where it must; `held` is released meanwhile.
  Result<bool> reclaim(std::uint64_t bytes, Wait wait, Held& held);

  // Bytes under way.
  std::uint64_t bytes() const;
  std::uint64_t waits() const { return waits_; }  // times that the host had to wait

 private:
  const Chunk& next_to_leave() const;
  Status take_finished(std::uint64_t bytes);
  Result<bool> is_finished(const Marks& marks);

  Device& device_;
  StreamOrder& order_;
  HandlePool& pool_;
  Residency& residency_;
  std::deque<Chunk*> leaving_;
  std::vector<Mark> unfinished_;                    // of the pass at hand
  std::vector<Chunk*> going_;                       // reused storage
  std::map<std::uint64_t, std::uint64_t> lacking_;  // bytes by size of handle; reused storage
  Turn waiting_;                                    // for the device
  std::uint64_t waits_ = 0;
};

}  // namespace pooch::runtime
