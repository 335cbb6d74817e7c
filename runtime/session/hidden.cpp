#include "runtime/session/hidden.h"

#include <algorithm>
#include <utility>

namespace pooch::runtime {

bool Stays::unname(Address base) {
  Reasons& reasons = reasons_[base];
  if (--reasons.names > 0 || reasons.by_address) return false;
  reasons_.erase(base);
  return true;
}

void Stays::keep(Range& range, std::uint64_t bytes) {
  range.pinned = true;
  for (Chunk& chunk : range.chunks) chunk.stays = true, ++chunk.pins;
  ++allocations_;
  bytes_ += bytes;
}

void Stays::release(Range& range) {
  range.pinned = false;
  for (Chunk& chunk : range.chunks)
    if (std::exchange(chunk.stays, false)) --chunk.pins;
}

SmallBuffers::Buffers SmallBuffers::take() {
  ++looks_;
  return std::exchange(buffers_, {});
}

Result<std::byte*> SmallBuffers::borrow(Device& device) {
  if (memory_ != nullptr) return std::exchange(memory_, nullptr);
  return device.host_allocate(largest);
}

void SmallBuffers::give_back(Device& device, std::byte* memory) {
  if (memory_ != nullptr || looks_ == most_looks)
    (void)device.host_free(memory);
  else
    memory_ = memory;
}

void SmallBuffers::close(Device& device) {
  if (memory_ != nullptr) (void)device.host_free(std::exchange(memory_, nullptr));
}

bool Unforeseen::long_ago(std::uint64_t iterations) {
  constexpr std::uint64_t enough = 2;
  iterations_at_last_ = std::min(iterations_at_last_, iterations);  // those that were given up do not count
  return under_way_ == 0 && !landing_begins_.taken() && iterations > iterations_at_last_ + enough;
}

}  // namespace pooch::runtime
