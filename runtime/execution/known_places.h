// The ranges of addresses in this process, and which of them the buffers of a phase lie at: as profiles and
// layouts count them.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/profile.h"
#include "runtime/execution/own_places.h"
#include "runtime/memory/address_space.h"
#include "runtime/memory/residency.h"
#include "runtime/observe/known_phase.h"

namespace pooch::runtime {

class KnownPlaces {
 public:
  // All ranges of the program. Those in `temporaries` are pooch's own: the memory of replays.
  KnownPlaces(Residency& residency, const AddressSpace& temporaries, OwnPlaces& own);

  // By address, and then what of() has added; valid until a range goes or is made.
  const std::vector<Range*>& ranges() const { return ranges_; }
  std::vector<ProfileRange> described() const;
  // By buffer of the phase: one range, or two in turn; none: it does not keep to a place. Adds those that are
  // the buffer's own.
  std::vector<std::vector<std::uint32_t>> of(const KnownPhase& phase);

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  std::uint32_t at(Address base, std::uint64_t bytes) const;

  OwnPlaces& own_;
  std::vector<Range*> ranges_;
  std::map<Address, std::uint32_t> index_;  // by base
};

}  // namespace pooch::runtime
