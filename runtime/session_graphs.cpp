// Allocations that somebody names who may use them at any time: graphs, of what captured calls touched, and
// NCCL, of what is registered with it.
#include <algorithm>

#include "core/log.h"
#include "runtime/session_impl.h"

namespace pooch::runtime {

void Session::capture_begins() {
  Impl& s = *impl_;
  const std::lock_guard lock(s.mutex);
  s.begin_watch();  // what a graph touches must be known
  s.order.settle();
  s.order.set_eager(true);  // a stream that does other work now may be captured in a moment
}

Status Session::hold(std::span<const Access> accesses, std::vector<Held>& held) {
  Impl& s = *impl_;
  for (const Access& access : accesses) {
    if (!owns(access.address)) continue;
    std::unique_lock lock(s.mutex);
    const tracker::Allocation* const found = s.tracker.allocations().containing(access.address);
    if (found == nullptr) continue;
    const Held one{{found->base, found->bytes}, found->id};
    if (std::any_of(held.begin(), held.end(), [&](const Held& h) { return h.allocation == one.allocation; }))
      continue;
    lock.unlock();
    pin(one.memory, Pinned::by_name);
    lock.lock();
    if (s.failed()) return Error{ErrorCode::device, "device memory cannot be used any more"};
    const Range* const range = s.residency->find(one.memory.base);
    if (range == nullptr || !range->pinned)
      return Error{
          ErrorCode::out_of_memory,
          fmt::format("it needs memory that stays on the device, and {} more do not fit under the cap",
                      format_bytes(one.memory.bytes))};
    ++s.stays[one.memory.base].names;
    held.push_back(one);
  }
  return Done{};
}

void Session::let_go(std::span<const Held> held) {
  Impl& s = *impl_;
  const std::lock_guard lock(s.mutex);
  for (const Held& one : held) {
    const tracker::Allocation* const there = s.tracker.allocations().starting_at(one.memory.base);
    if (there == nullptr || there->id != one.allocation) continue;  // freed, which ended it
    Impl::Stays& stays = s.stays[one.memory.base];
    if (--stays.names > 0 || stays.by_address) continue;
    s.stays.erase(one.memory.base);
    Range& range = *s.residency->find(one.memory.base);
    range.pinned = false;
    for (Chunk& chunk : range.chunks)
      if (std::exchange(chunk.stays, false)) --chunk.pins;
  }
}

}  // namespace pooch::runtime
