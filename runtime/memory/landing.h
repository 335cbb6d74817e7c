// What ops that may touch any memory ask of all memory, and landing: evicted memory is mapped to its copy on
// the host, at its own address. An access that nobody foresaw is then slow instead of fatal. Where the device
// cannot do that, or nobody wants it, such an access to evicted memory faults; what it reads is never stale,
// since the rest of the rules below holds all the same.
//
//   resident -- its eviction is finished --> evicted and landed: a handle of the host's
//      ^                                     at the chunk's address
//      |                                        |
//      +-- unmapped, backed and copied in ------+
//
// What such an access may come from is known: *unforeseen ops*, launches of which nobody knows all that they
// touch. None of them meets a chunk that has no memory, and what it writes is never lost:
//
//   - An eviction copies behind all that were launched before it, and is finished when they are.
//   - Before one is launched, the evictions under way are finished, or else taken back; it follows the
//     fetches under way. So it finds every chunk either on the device or landed.
//   - A landed chunk is unmapped when all of them are finished.
//   - What they may have written to on either side makes the other copy worthless, so there is only one at a
//     time: a chunk that was fetched, or whose eviction was taken back, has none on the host any more.
//
// The host waits for the last two, which is what landing costs beside two mapping calls per eviction. Memory
// that has no content as far as anybody knows, and what a plan has dropped, does not land.
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
  // Takes back those that are still under way.
  Status enter(StreamIndex stream);
  void launched(StreamIndex stream) { ops_.add(order_.launched_exactly(stream)); }

  enum class Patience : std::uint8_t { none, some };
  // What has landed of `uses` is about to come back: waits for the ops that may be reaching it. True: the
  // host waited, so everything may have changed. May release `held`. Error out_of_memory: the program itself
  // holds those ops up; with some patience it was given time.
  Result<bool> await_untouched(const std::vector<ChunkUse>& uses, Patience patience, Held& held);
  // Whether all unforeseen ops are finished.
  Result<bool> quiet() { return order_.finished(ops_); }

  // --- for Residency
  // Room for the chunk's content: a handle where one can be had.
  Result<HostSlot> room_for(const Chunk& chunk);
  void leaving(Chunk& chunk);  // its eviction begins
  void fetched(Mark mark) { last_fetch_ = mark; }
  void closing(Chunk& chunk);  // its allocation ends; landed, it keeps its slot until nobody can reach it
  // Maps those of the chunks that can. Where the driver refuses, landing ends.
  void land(std::span<Chunk* const> chunks);
  // Takes the mapping of a landed chunk away: it stays evicted, or its slot is freed. Error internal: an
  // unforeseen op is not finished.
  Status unmap(Chunk& chunk);
  // Unmaps what has closed and cannot be reached any more.
  void sweep();

  // Takes all landed chunks out of their mappings, unless an unforeseen op is unfinished or somebody waits
  // for one. True: nothing is landed any more.
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
  bool refused_;                 // the driver will not have it, or nobody asked for it
  std::uint64_t landings_ = 0;
};

}  // namespace pooch::runtime
