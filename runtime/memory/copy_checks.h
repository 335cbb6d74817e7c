// POOCH_CHECK: clean chunks are copied all the same when they leave, and compared with the copy that the host
// has. A difference was written by an access that no operand named. It is reported, and the newer content
// counts.
#pragma once

#include <map>

#include "runtime/memory/chunk.h"
#include "runtime/memory/host_arena.h"

namespace pooch::runtime {

class CopyChecks {
 public:
  explicit CopyChecks(HostArena& arena) : arena_(arena) {}

  void begin() { on_ = true; }
  bool on() const { return on_; }
  // The chunk is about to be copied again.
  void keep(Chunk& chunk, HostSlot earlier) { earlier_[&chunk] = std::move(earlier); }
  // Nothing is compared.
  void drop(Chunk& chunk);
  // The host saw the new copy end.
  void compare(Chunk& chunk);

 private:
  HostArena& arena_;
  bool on_ = false;
  std::map<const Chunk*, HostSlot> earlier_;
};

}  // namespace pooch::runtime
