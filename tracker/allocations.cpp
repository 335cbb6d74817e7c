#include "tracker/allocations.h"

#include <iterator>
#include <utility>

namespace pooch::tracker {

[[gnu::hot]] const Allocation& Allocations::add(Address base, std::uint64_t bytes, bool managed,
                                                bool by_program, std::uint64_t born, void* origin,
                                                bool counts) {
  const AllocationId id{++last_id_};
  ++changes_;
  auto after = by_address_.lower_bound(base);
  if (after != by_address_.end() && after->first == base) {
    ++after;
    (void)take(base);  // the driver handed out an address whose free passed us by
  }
  ByAddress::iterator place;
  if (spare_.empty()) {
    place = by_address_.try_emplace(after, base);
  } else {
    spare_.back().key() = base;
    place = by_address_.insert(after, std::move(spare_.back()));
    spare_.pop_back();
  }
  Entry& entry = place->second;
  entry.allocation = {id, base, bytes, managed, by_program, born, origin, counts, nullptr, &entry.content};
  entry.content.clear();
  if (by_program) {
    live_ += bytes;
    if (managed) live_managed_ += bytes;
    if (live_ > need_peak_) need_peak_ = live_, need_peak_managed_ = live_managed_;
  }
  return entry.allocation;
}

[[gnu::hot]] std::optional<Allocation> Allocations::take(Address base) {
  const auto found = by_address_.find(base);
  if (found == by_address_.end()) return std::nullopt;
  ++changes_;
  const Allocation gone = std::exchange(found->second.allocation, {});
  if (gone.by_program) {
    live_ -= gone.bytes;
    if (gone.managed) live_managed_ -= gone.bytes;
  }
  spare_.push_back(by_address_.extract(found));
  return gone;
}

const Allocation* Allocations::containing(Address address) const {
  auto after = by_address_.upper_bound(address);
  if (after == by_address_.begin()) return nullptr;
  const Allocation& candidate = std::prev(after)->second.allocation;
  return address - candidate.base < candidate.bytes ? &candidate : nullptr;
}

const Allocation* Allocations::starting_at(Address base) const {
  const auto found = by_address_.find(base);
  return found == by_address_.end() ? nullptr : &found->second.allocation;
}

}  // namespace pooch::tracker
