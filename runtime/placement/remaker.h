// What Demand and Streaming ask before they copy content out: whether it had better be dropped, and made
// again when it is needed.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/result.h"
#include "runtime/memory/chunk.h"

namespace pooch::runtime {

// A part of an allocation that is expected to be touched.
struct Expected {
  Address base;  // the range's
  AllocationId allocation;
  std::uint64_t offset, bytes;
};

class Remaker {
 public:
  virtual ~Remaker() = default;
  // Begins to drop what the buffer that the chunk is part of has on the device, if to make it again costs
  // less than its copies. Returns the bytes that leave; 0: it is to be copied. Chunks that this gathering has
  // listed stay (Chunk::gathered_by; 0: none). Error: device.
  virtual Result<std::uint64_t> drop(const Chunk& chunk, std::uint64_t gathering) = 0;
  // Appends what has to be on the device for the buffer to be made again; nothing if it was not dropped.
  virtual void needed_for(AllocationId buffer, std::vector<Expected>& into) const = 0;
};

}  // namespace pooch::runtime
