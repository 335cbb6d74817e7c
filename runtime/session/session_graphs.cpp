// Allocations that somebody names who may use them at any time: graphs, of what captured calls touched, and
// NCCL, of what is registered with it.
#include <algorithm>

#include "core/log.h"
#include "runtime/session/session_impl.h"

namespace pooch::runtime {

void Session::capture_begins() {
  Impl& s = *impl_;
  const Held held(s.mutex);
  s.begin_watch();  // what a graph touches must be known
  s.memory.order.settle();
  s.memory.order.set_eager(true);  // a stream that does other work now may be captured in a moment
  s.memory.order.insist();
}

Status Session::hold(std::span<const Access> accesses, std::vector<Kept>& kept) {
  Impl& s = *impl_;
  for (const Access& access : accesses) {
    if (!owns(access.address)) continue;
    Held held(s.mutex);
    const tracker::Allocation* const found = s.tracker.allocations().containing(access.address);
    if (found == nullptr) continue;
    const Kept one{{found->base, found->bytes}, found->id};
    if (std::any_of(kept.begin(), kept.end(), [&](const Kept& k) { return k.allocation == one.allocation; }))
      continue;
    held.released([&] { pin(one.memory, Pinned::by_name); });
    if (s.failures.failed()) return Error{ErrorCode::device, "device memory cannot be used any more"};
    const Range* const range = s.memory.residency->find(one.memory.base);
    if (range == nullptr || !range->pinned)
      return Error{
          ErrorCode::out_of_memory,
          fmt::format("it needs memory that stays on the device, and {} more do not fit under the cap",
                      format_bytes(one.memory.bytes))};
    s.hidden.stays.name(one.memory.base);
    kept.push_back(one);
  }
  return Done{};
}

void Session::let_go(std::span<const Kept> kept) {
  Impl& s = *impl_;
  const Held held(s.mutex);
  for (const Kept& one : kept) {
    const tracker::Allocation* const there = s.tracker.allocations().starting_at(one.memory.base);
    if (there == nullptr || there->id != one.allocation) continue;  // freed, which ended it
    if (s.hidden.stays.unname(one.memory.base)) Stays::release(*s.memory.residency->find(one.memory.base));
  }
}

}  // namespace pooch::runtime
