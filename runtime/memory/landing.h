// Rules for ops that may touch any memory, and landing: evicted memory is mapped, at its own address, to its
// copy on the host. An unforeseen access is then slow instead of fatal. If the device cannot do that, or
// landing is off, such an access to evicted memory faults; it never reads stale content, since the other
// rules below hold all the same.
//
//   resident -- its eviction is finished --> evicted and landed: a handle of the host's
//      ^                                     at the chunk's address
//      |                                        |
//      +-- unmapped, backed and copied in ------+
//
// Such accesses come only from *unforeseen ops*: launches whose effects are unknown, and those whose operands
// have no room together (docs/decisions/0093). None of them meets a chunk that has no memory, and what it
// writes is never lost:
//
//   - An eviction's copy waits for all that were launched before it, and is finished when they are.
//   - Before one is launched, the evictions under way are finished, or else taken back; it follows the
//     fetches under way. So it finds every chunk either on the device or landed.
//   - A landed chunk is unmapped only when all of them are finished.
//   - They may have written to either copy, which makes the other one worthless, so there is only one at a
//     time: a chunk that was fetched, or whose eviction was taken back, has none on the host any more.
//
// The host waits for evictions before such a launch and for these ops before it unmaps: the cost of landing,
// beside two mapping calls per eviction. Memory without known content, and what a plan has dropped, does not
// land.
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/device.h"
#include "core/result.h"
#include "runtime/memory/held.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

class Landing {
 public:
  enum class Mapping : bool { no, yes };  // whether evicted chunks are mapped to their copies
  Landing(Device& device, StreamOrder& order, HostArena& arena, Residency& residency, Mapping mapping)
      : device_(device),
        order_(order),
        arena_(arena),
        residency_(residency),
        refused_(mapping == Mapping::no) {}
  Landing(const Landing&) = delete;
  Landing& operator=(const Landing&) = delete;

  // --- unforeseen ops: settle, place its operands, enter, launch, launched
  // Finishes the evictions under way, where the host may wait for them. May release `held`.
  Status settle(Held& held);
  // Takes back the evictions still under way.
  Status enter(StreamIndex stream);
  void launched(StreamIndex stream) { ops_.add(order_.launched_exactly(stream)); }

  enum class Patience : std::uint8_t { none, some };
  // Landed chunks of `uses` are about to come back: waits for the ops that may be reaching them. True: the
  // host waited, so everything may have changed. May release `held`. Error out_of_memory: the program itself
  // blocks those ops; Patience::some waits a while first.
  Result<bool> await_untouched(const std::vector<ChunkUse>& uses, Patience patience, Held& held);
  // Whether all unforeseen ops are finished.
  Result<bool> quiet() { return order_.finished(ops_); }

  // --- for Residency
  // Room for the chunk's content: a handle where one can be had.
  Result<HostSlot> room_for(const Chunk& chunk);
  void leaving(Chunk& chunk);  // its eviction begins
  void fetched(Mark mark) { last_fetch_ = mark; }
  void closing(Chunk& chunk);  // its allocation ends; if landed, it keeps its slot until no op can reach it
  // Maps those chunks that can land. If the driver refuses, landing ends.
  void land(std::span<Chunk* const> chunks);
  // Removes the mapping of a landed chunk: it stays evicted, or its slot is freed. Error internal: an
  // unforeseen op is not finished.
  Status unmap(Chunk& chunk);
  // Unmaps closed chunks that no op can reach any more.
  void sweep();

  // Unmaps all landed chunks, unless an unforeseen op is unfinished or a thread waits for one. True: nothing
  // is landed any more.
  bool rest();

  bool maps() const { return !refused_; }
  void give_up_mapping() { refused_ = true; }  // before anything has landed
  std::uint64_t landings() const { return landings_; }

 private:
  Status map(std::span<Chunk* const> neighbours);

  Device& device_;
  StreamOrder& order_;
  HostArena& arena_;
  Residency& residency_;
  Marks ops_;  // unforeseen ones, the latest of each stream
  Mark last_fetch_;
  Turn waiting_;                 // for them; several threads at a time
  std::vector<Chunk*> leaving_;  // live ones whose evictions have begun; some may be evicted or back by now
  std::vector<Chunk*> closed_;   // landed
  bool refused_;                 // the driver refuses it, or it is off
  std::uint64_t landings_ = 0;
};

}  // namespace pooch::runtime
