#include "tracker/allocations.h"

namespace pooch::tracker {

const Allocation& Allocations::add(Address base, std::uint64_t bytes, bool managed, bool by_program,
                                   std::uint64_t born) {
  const Allocation made{AllocationId{++last_id_}, base, bytes, managed, by_program, born};
  auto [place, fresh] = by_address_.try_emplace(base, made);
  if (!fresh) {  // the driver handed out an address whose free passed us by
    (void)take(base);
    place = by_address_.emplace(base, made).first;
  }
  if (by_program) {
    live_ += bytes;
    if (managed) live_managed_ += bytes;
    if (live_ > need_peak_) need_peak_ = live_, need_peak_managed_ = live_managed_;
  }
  return place->second;
}

std::optional<Allocation> Allocations::take(Address base) {
  const auto found = by_address_.find(base);
  if (found == by_address_.end()) return std::nullopt;
  const Allocation gone = found->second;
  if (gone.by_program) {
    live_ -= gone.bytes;
    if (gone.managed) live_managed_ -= gone.bytes;
  }
  by_address_.erase(found);
  return gone;
}

const Allocation* Allocations::containing(Address address) const {
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second;
  return address - candidate.base < candidate.bytes ? &candidate : nullptr;
}

const Allocation* Allocations::starting_at(Address base) const {
  const auto found = by_address_.find(base);
  return found == by_address_.end() ? nullptr : &found->second;
}

}  // namespace pooch::tracker
