// Chunks, and what they lie in: ranges of addresses, and frames of memory. residency.h moves them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/device.h"
#include "core/ids.h"
#include "runtime/memory/handle_pool.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

enum class ChunkState : std::uint8_t { unbacked, resident, evicting, evicted, dropped };

struct Chunk {
  Address address{};
  std::uint64_t bytes = 0;     // of the handles that back it, usually one
  std::uint64_t offset = 0;    // within its range
  std::uint64_t occupied = 0;  // its bytes that the live allocation covers
  AllocationId owner{};        // that allocation
  ChunkState state = ChunkState::unbacked;
  Pieces pieces;            // its memory
  bool live = false;        // its content has a meaning
  bool host_valid = false;  // the host slot holds that content
  bool landed = false;      // not resident, but `slot`, one handle of the host's, is mapped at the address
  // Resident, but the content is only in the host slot: an op is about to overwrite it, or (alias mode)
  // others have taken its frames.
  bool stale = false;
  HostSlot slot;
  Mark slot_use;  // the last copy from or to the slot
  Marks uses;     // submitted work that touches the backing: it must finish before the handle may move
  Marks before;   // what a new use must follow: a fetch, or the life of an earlier allocation at this address
  // Alias mode: the pieces of memory that it is mapped to and shares with other chunks. Its state stays
  // resident; `stale` and `tenant` tell whether its content is there.
  std::vector<struct Frame*> frames;
  bool wanders = false;           // it has other frames in other stays
  bool tenant = false;            // it is the latest tenant of all its frames
  bool expendable = false;        // the plan has dropped the content, and no replay has recomputed it yet
  std::string_view name{};        // of the map that it is part of, for the timeline
  std::uint64_t flow = 0;         // the timeline's arrow from its eviction to its next use
  int pins = 0;                   // uses in flight outside of the session's mutex, and `stays`
  bool stays = false;             // is pinned as long as its allocation lives
  std::uint64_t last_use = 0;     // Placement::clock() at its latest use
  std::uint64_t next_use = 0;     // Foresight: the op that is expected to touch it next; 0: unknown
  bool ends = false;              // it is freed then instead
  bool early = false;             // fetched for a use that has not come yet
  std::uint64_t gathered_by = 0;  // op that last listed it, and where in its list
  std::uint32_t gathered_index = 0;
  std::uint32_t mapped_index = 0;  // place in Mappings::chunks()
};

// The state of its content once it has no memory.
inline ChunkState state_without_memory(const Chunk& chunk) {
  if (!chunk.live) return ChunkState::unbacked;
  return chunk.host_valid ? ChunkState::evicted : ChunkState::dropped;
}

// Physical memory that several chunks are mapped to, whose stays do not overlap.
struct Frame {
  Pieces pieces;
  Chunk* tenant = nullptr;  // the chunk whose content it holds in part, or held last
  bool given_away = false;  // alias mode ends, and the tenant keeps the memory
};

// A range of addresses with its chunks. It outlives allocations: a freed range keeps its handles mapped.
struct Range {
  Address base{};
  std::uint64_t bytes = 0;
  std::vector<Chunk> chunks;
  bool in_use = false;  // a live allocation owns it
  bool pinned = false;  // and each chunk of it `stays`

  // Whether a stream other than this one has touched it.
  bool used_beside(StreamIndex stream) const {
    const auto beside = [stream](Mark mark) { return mark.stream != stream; };
    return std::any_of(chunks.begin(), chunks.end(), [&](const Chunk& chunk) {
      return std::any_of(chunk.uses.begin(), chunk.uses.end(), beside);
    });
  }
};

// One chunk that an op touches.
struct ChunkUse {
  Chunk* chunk;
  bool needs_content;         // its old bytes must be there
  bool changes;               // its bytes may differ afterwards
  std::uint32_t operand = 0;  // index of the op's first operand that touches it
};

}  // namespace pooch::runtime
