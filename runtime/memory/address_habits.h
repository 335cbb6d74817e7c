// Where the allocations of an iteration lay in earlier ones, so that they lie there again. Where results of
// two iterations overlap in time (the program makes the new one before it frees the old one), the lowest free
// range would be another allocation's in every second iteration, and both would lie in two places in turn.
//
// A part of AddressSpace.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "core/ids.h"

namespace pooch::runtime {

class AddressHabits {
 public:
  static constexpr std::size_t most_earlier = 4;

  // When an allocation is made: in which phase, in the iteration that began with which step, before which of
  // its ops. `number`: where sizes differ from iteration to iteration, its number among all that are made
  // then.
  struct When {
    std::uint32_t phase;
    std::uint64_t start, position;
    std::optional<std::uint32_t> number = {};
  };
  // Several of one size may be made between two ops: those are told apart by their order. `bytes` is 0 where
  // sizes differ.
  struct Allocation {
    std::uint32_t phase;
    std::uint64_t position, bytes;
    std::uint32_t number;
    friend auto operator<=>(const Allocation&, const Allocation&) = default;
  };
  // The next one of so many bytes made then.
  Allocation next(const When& when, std::uint64_t bytes);
  // Where it lay, the latest first; at most `most_earlier`. Valid until the next note().
  std::span<const Address> earlier(const Allocation& of) const;
  // Whether another allocation of the phase was the latest at the address.
  bool is_anothers(Address address, const Allocation& than) const;
  void note(const Allocation& of, Address address);
  // It is not known to have lain there.
  void forget(const Allocation& of, Address address);
  // Which of the phase's allocations of so many bytes before this position lay at the address; the latest.
  std::optional<Allocation> at(Address address, std::uint32_t phase, std::uint64_t position,
                               std::uint64_t bytes) const;

 private:
  std::map<Allocation, std::vector<Address>> earlier_;
  std::map<Address, Allocation> latest_at_;
  std::uint64_t step_ = 0;                       // before which the latest was made
  std::map<std::uint64_t, std::uint32_t> made_;  // by bytes, before that step
};

}  // namespace pooch::runtime
