// The program's live allocations, by address, and the peak of what it needs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "core/ids.h"
#include "tracker/versions.h"

namespace pooch::tracker {

struct Allocation {
  AllocationId id;
  Address base;
  std::uint64_t bytes;      // as requested
  bool managed;             // pooch moves it; otherwise the real driver serves it
  bool by_program;          // counts as need; false for what CUDA's own libraries take for themselves
  std::uint64_t born;       // steps that the program had submitted by then
  void* origin = nullptr;   // what it was allocated from, if the caller says so
  bool counts = true;       // against the cap by itself; false: a block of a slab that counts as a whole
  void* backing = nullptr;  // data of whoever moves it; not read here
  Versions* content = nullptr;
};

class Allocations {
 public:
  const Allocation& add(Address base, std::uint64_t bytes, bool managed, bool by_program,
                        std::uint64_t born = 0, void* origin = nullptr, bool counts = true);
  void set_backing(Address base, void* backing) {
    by_address_.find(base)->second.allocation.backing = backing;
  }
  // Ends the allocation that starts at `base`; empty if there is none. A pointer to it may still be read as
  // long as this lives, and finds another id.
  std::optional<Allocation> take(Address base);
  // The live allocation that contains `address`, or nullptr. Valid until the next add or take.
  const Allocation* containing(Address address) const;
  const Allocation* starting_at(Address base) const;
  // In order of their addresses.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const auto& [base, entry] : by_address_) visit(entry.allocation);
  }

  // Counts additions and removals: what containing() said holds as long as this is unchanged.
  std::uint64_t changes() const { return changes_; }

  std::uint64_t need_bytes() const { return need_peak_; }                  // peak of live requested bytes
  std::uint64_t need_managed_bytes() const { return need_peak_managed_; }  // the managed part of that moment

 private:
  struct Entry {
    Allocation allocation;
    Versions content;
  };
  using ByAddress = std::map<Address, Entry>;
  ByAddress by_address_;
  std::vector<ByAddress::node_type> spare_;  // of allocations that ended, for those to come
  std::uint64_t last_id_ = 0, changes_ = 0;
  std::uint64_t live_ = 0, live_managed_ = 0;
  std::uint64_t need_peak_ = 0, need_peak_managed_ = 0;
};

}  // namespace pooch::tracker
