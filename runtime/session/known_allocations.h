// The program's live allocations for whoever asks without the session's mutex: a library may ask about a
// pointer from inside the very call that holds it.
//
// Changes are made with the session's mutex held. Any thread may ask.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/session/answers.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

class KnownAllocations {
 public:
  // Managed allocations lie from `arena` on.
  KnownAllocations(tracker::Tracker& tracker, Address arena) : tracker_(tracker), arena_(arena) {}

  // `counts`, `origin`, `by_program`: see tracker::Allocation.
  tracker::Allocation add(Address base, std::uint64_t bytes, bool managed, bool by_program, void* origin,
                          bool counts);
  std::optional<tracker::Allocation> remove(Address base);

  // The allocation that contains `address`.
  std::optional<Extent> find(Address address) const;
  // The origin of the allocation at `base`; nullptr if its caller gave none.
  void* origin_of(Address base) const;
  std::vector<Extent> all() const;
  // Bytes from the arena's begin in which all that was ever managed lies.
  std::uint64_t arena_used() const { return arena_used_.load(std::memory_order_relaxed); }

 private:
  tracker::Tracker& tracker_;
  const Address arena_;
  mutable std::mutex mutex_;  // a leaf
  std::atomic<std::uint64_t> arena_used_{0};
  // All allocations that there ever were lie between them.
  std::atomic<Address> lowest_{Address{~std::uint64_t{0}}}, highest_{Address{0}};
};

}  // namespace pooch::runtime
