// Copies on the host of what a plan drops, as long as it is not proven that replays make it again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/result.h"
#include "runtime/memory/host_arena.h"
#include "runtime/memory/residency.h"
#include "runtime/memory/stream_order.h"

namespace pooch::runtime {

struct SavedCopy {
  Chunk* chunk;
  HostSlot slot;
  Mark last_use;
  std::uint64_t bytes;
};

class SavedCopies {
 public:
  // `budget`: bytes that the arena may have.
  SavedCopies(Residency& residency, HostArena& host, std::uint64_t budget)
      : residency_(residency), host_(host), budget_(budget) {}

  // Leaves so many bytes of the arena to others.
  void leave(std::uint64_t bytes) { others_ = bytes; }
  // Of all these chunks, or of none: half a copy does not help.
  Result<std::vector<SavedCopy>> save(const std::vector<Chunk*>& chunks);
  // After an error the rest of the copies is gone.
  Status put_back(std::vector<SavedCopy>& copies);
  void free(std::vector<SavedCopy>& copies);

 private:
  Residency& residency_;
  HostArena& host_;
  const std::uint64_t budget_;
  std::uint64_t others_ = 0, copied_ = 0;  // bytes
};

}  // namespace pooch::runtime
