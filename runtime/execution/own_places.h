// Ranges of their own for the buffers that come and go within an iteration.
//
// Allocators hand out the same addresses again and again, so a range has many buffers in one iteration, and a
// layout must find frames that are free at the times of all of them. Addresses cost nothing: while there is a
// layout, each such buffer has a range that is nobody else's. What outlives an iteration stays where it is:
// it is found there by other phases, too.
//
// A buffer is known by when it is allocated (memory/address_habits.h). The session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "core/result.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/residency.h"
#include "runtime/observe/known_phase.h"

namespace pooch::runtime {

class OwnPlaces {
 public:
  // `space`: where the program's ranges lie.
  OwnPlaces(AddressSpace& space, Residency& residency) : space_(space), residency_(residency) {}

  // By buffer of the phase, which must be settled: its range, without memory until a layout gives it some;
  // nullptr: it has none of its own. The same ones each time. Valid until forget().
  std::vector<Range*> of(const KnownPhase& phase);
  bool contains(const Range& range) const { return addresses_.contains(range.base); }

  // From now on allocations of these phases get them.
  void offer(const std::vector<const KnownPhase*>& phases);
  // From now on they get what they got before.
  void withdraw();
  // Ranges that nobody uses are about to be forgotten.
  void forget();

 private:
  struct Own {
    AddressHabits::Allocation allocation;
    Address address;
  };
  using Places = std::vector<std::optional<Own>>;  // by buffer

  const Places& places(const KnownPhase& phase);
  bool outgrown(const Places& places, const KnownPhase& phase) const;

  AddressSpace& space_;
  Residency& residency_;
  std::map<tracker::PhaseIndex, Places> places_;
  std::set<Address> addresses_;
  std::set<tracker::PhaseIndex> offered_;
};

}  // namespace pooch::runtime
