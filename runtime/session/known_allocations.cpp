#include "runtime/session/known_allocations.h"

namespace pooch::runtime {

[[gnu::hot]] tracker::Allocation KnownAllocations::add(Address base, std::uint64_t bytes, bool managed,
                                                       bool by_program, void* origin, bool counts) {
  constexpr auto relaxed = std::memory_order_relaxed;
  const std::lock_guard leaf(mutex_);
  lowest_.store(std::min(base, lowest_.load(relaxed)), relaxed);
  highest_.store(std::max(base + bytes, highest_.load(relaxed)), relaxed);
  if (managed) arena_used_.store(std::max(base + bytes - arena_, arena_used_.load(relaxed)), relaxed);
  return tracker_.allocated(base, bytes, managed, by_program, origin, counts);
}

[[gnu::hot]] std::optional<tracker::Allocation> KnownAllocations::remove(Address base) {
  const std::lock_guard leaf(mutex_);
  return tracker_.freed(base);
}

std::optional<Extent> KnownAllocations::find(Address address) const {
  // Most words that somebody asks for are no addresses at all.
  if (address < lowest_.load(std::memory_order_relaxed) ||
      address >= highest_.load(std::memory_order_relaxed))
    return std::nullopt;
  const std::lock_guard leaf(mutex_);
  const tracker::Allocation* const found = tracker_.allocations().containing(address);
  return found == nullptr ? std::nullopt : std::optional(Extent{found->base, found->bytes});
}

void* KnownAllocations::origin_of(Address base) const {
  const std::lock_guard leaf(mutex_);
  const tracker::Allocation* const found = tracker_.allocations().starting_at(base);
  return found == nullptr ? nullptr : found->origin;
}

std::vector<Extent> KnownAllocations::all() const {
  std::vector<Extent> all;
  const std::lock_guard leaf(mutex_);
  tracker_.allocations().each([&](const tracker::Allocation& a) { all.push_back({a.base, a.bytes}); });
  return all;
}

}  // namespace pooch::runtime
