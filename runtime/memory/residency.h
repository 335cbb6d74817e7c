// Where every chunk's content is, and the moves between places.
//
// A chunk is a part of a range, backed by one handle or several smaller ones.
//
//              first use                 host saw the copy end
//   unbacked ------------> resident <---------- evicting -------> evicted
//      ^                   |   ^  \______________^   |               |
//      |   content dead    |   |   begin_eviction    | content dead  |
//      +-------------------+   +---------------------|---------------+
//      +---------------------------------------------+    fetch (copied in ahead of its use)
//
//   dropped    like evicted, but without a copy: a replay recomputes the content. If it is resident before
//              that, the chunk is `expendable`: its bytes mean nothing
//   unbacked   no memory behind the address; the content, if there ever was one, is dead
//   resident   a handle is mapped; `host_valid` says whether the host slot holds the same bytes (a clean
//              chunk)
//   evicting   still mapped; its copy to the host has been put into the copy stream, or none is needed. A
//              use by another thread takes it back to resident.
//   evicted    no handle; the host slot has the only copy. Where that is a handle itself, the chunk may
//              have *landed*: landing.h
//
// Not thread-safe: the session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/device.h"
#include "core/effect.h"
#include "core/function_ref.h"
#include "core/ids.h"
#include "core/result.h"
#include "runtime/memory/chunk.h"
#include "runtime/memory/copy_checks.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/mappings.h"
#include "runtime/memory/stream_order.h"
#include "runtime/observe/trace.h"

namespace pooch::runtime {

class Landing;

class Residency {
 public:
  Residency(Device& device, StreamOrder& order, HandlePool& pool, HostArena& arena, StreamHandle out_stream,
            StreamHandle in_stream);

  // From now on shows copies in the timeline; nullptr: in none.
  void show_in(Trace* trace) { trace_ = trace; }

  // From now on.
  void check_copies() { checks_.begin(); }

  // Chunks land from now on; nullptr: none does, for good.
  void land_with(Landing* landing) { landing_ = landing; }
  Landing* landing() const { return landing_; }
  Status unmap_landed();

  // --- ranges
  Range& open(Address base, std::uint64_t range_bytes, AllocationId owner, std::uint64_t allocation_bytes);
  Range* find(Address base);
  // visit(range) for all of them.
  template <class Visit>
  void each_range(Visit&& visit) const {
    for (const auto& [base, range] : ranges_) visit(range);
  }
  // The allocation ends: its content is dead, its backing is reusable after `after` and all earlier uses.
  void close(Range& range, const Marks& after);
  // Takes the backing from the ranges that no allocation owns and whose uses are finished, and forgets them.
  using Span = std::pair<Address, std::uint64_t>;
  // `going` is called for each before it goes.
  Result<std::vector<Span>> forget_unused(FunctionRef<void(const Range&)> going);
  Marks unused_marks() const;  // what to wait for before

  // --- uses
  // Appends the chunks that `effect` on [offset, offset + bytes) of the range touches. `operand`: its index
  // in the op; `op` tells lists apart.
  void gather(Range& range, std::uint64_t offset, std::uint64_t bytes, Effect effect, std::uint32_t operand,
              std::uint64_t op, std::vector<ChunkUse>& uses);
  // Whether all of it is on the device, with its content, and not on its way out.
  static bool settled(const std::vector<ChunkUse>& uses);
  // Handle bytes that the uses lack.
  static std::uint64_t missing(const std::vector<ChunkUse>& uses);
  // Gives every use its backing and starts the copies of content it needs. Error out_of_memory: the pool
  // cannot serve; nothing is lost, try again after evicting.
  Status make_resident(const std::vector<ChunkUse>& uses);
  // The same for as many of them as there is memory for; also fetches content that is about to be
  // overwritten, so that its copy on the host is no longer needed. False: for none that was not there
  // already.
  Result<bool> make_some_resident(const std::vector<ChunkUse>& uses);
  // The same for as many of them as there is memory for, while the rest waits for more. Returns the bytes of
  // the smallest chunk that still lacks memory, 0 if none does.
  Result<std::uint64_t> make_resident_ahead(const std::vector<ChunkUse>& uses);
  // All uses find the content that they need. Error internal: some was dropped and not recomputed.
  // `remaking`: they are a replay's, which may write a part of what was dropped.
  static Status has_content(const std::vector<ChunkUse>& uses, bool remaking);
  // Work that uses the chunks has just been put into the stream: its point. The host asks for it exactly
  // where a chunk is to be mapped elsewhere.
  Mark launched(const std::vector<ChunkUse>& uses, StreamIndex stream);
  // Work that uses the chunks was put into a stream. The caller sets `live`.
  void used(const std::vector<ChunkUse>& uses, Mark mark, std::uint64_t op);

  // --- evictions
  const std::vector<Chunk*>& mapped() const { return mappings_.chunks(); }
  // Error out_of_memory: the arena has no room for the content.
  Status begin_eviction(Chunk& chunk);
  // Cancels an eviction that has begun.
  void take_back(Chunk& chunk);
  // The content is lost; a replay recomputes it.
  void begin_drop(Chunk& chunk);
  // Unmaps a chunk whose uses are all finished. It is then evicted, dropped or unbacked.
  Status finish_eviction(Chunk& chunk) { return finish_evictions({&chunk}); }
  // The same for several, duplicates allowed, with one call for neighbours. If one fails, those after it are
  // as they were.
  Status finish_evictions(std::vector<Chunk*> chunks);
  // Copies live content to the host where it is not there yet. Error out_of_memory: no room for it there.
  Status save(Chunk& chunk);
  // Brings stale content back, after everything that the chunk's use must follow.
  Status fetch(Chunk& chunk);

  // --- alias mode
  // The range has chunks of these sizes from now on, each with its part of the content; the last may end
  // behind the range. No chunk has memory or is in use, and all work with them has finished. Pointers to them
  // are invalid afterwards. Error out_of_memory: some have content on the host, and there is no room for what
  // is to lie beside it; internal: what is to lie beside it was dropped, and is not recomputed.
  Status cut(Range& range, const std::vector<std::uint64_t>& sizes);
  // Maps the chunk, which has no handle, to the frames; access is to be granted afterwards.
  Status map_to(Chunk& chunk, std::vector<Frame*> frames);
  // Maps it to other frames, of which the first `kept` are those that it has. Its work has finished. On
  // failure it has no memory; if its addresses then still lead to others' memory: doubt().
  Status move_to(Chunk& chunk, std::vector<Frame*> frames, std::size_t kept);
  // Ends alias mode for the chunk: a tenant keeps the frames' handles, any other is unmapped. All work has
  // finished. If it fails, the addresses still lead to others' memory: doubt().
  Status unmap_from_frames(Chunk& chunk);

  // The device's mappings differ from the records here: no call may read managed memory any more.
  const std::optional<Error>& doubt() const { return doubt_; }

  // Gives up the host copy of a resident chunk.
  void drop_host_copy(Chunk& chunk);
  // Gives it to the caller instead, with the last copy from or to it.
  std::pair<HostSlot, Mark> take_copy(Chunk& chunk);
  // Makes such a copy the content again of a resident chunk whose work has finished.
  Status put_back(Chunk& chunk, HostSlot slot, Mark last_use);

  std::uint64_t evictions() const { return evictions_; }
  StreamIndex out_stream() const { return out_; }  // that content is copied to the host in
  StreamIndex in_stream() const { return in_; }    // ... and to the device

 private:
  Status copy_out(Chunk& chunk, HostSlot slot);
  Status back(Chunk& chunk);
  void unback(Chunk& chunk);
  Status fill_gaps(const Range& range, const std::vector<std::uint64_t>& sizes,
                   std::vector<HostSlot>& content);
  static void without_memory(Chunk& chunk);
  Trace::Number begin_slice(TraceTrack track, const Chunk& chunk, StreamIndex stream);

  Device& device_;
  StreamOrder& order_;
  HandlePool& pool_;
  HostArena& arena_;
  StreamIndex out_, in_;
  std::map<Address, Range> ranges_;
  Mappings mappings_;
  CopyChecks checks_;
  std::vector<Chunk*> fresh_;  // mapped by the running make_resident; reused storage
  std::uint64_t evictions_ = 0;
  std::optional<Error> doubt_;
  Trace* trace_ = nullptr;
  Landing* landing_ = nullptr;
};

}  // namespace pooch::runtime
