// Virtual addresses for managed allocations: one reserved arena, so that "is this word one of our pointers"
// is one comparison, and the same sequence of allocations gets the same addresses in every iteration.
//
// A range permanently keeps its size and its stream (until `coalesce`), and the lowest free range of exactly
// the size asked for is handed out first, unless it is known where the allocation lay before. A range that
// was set aside for an allocation may be larger than that is this time. Ranges are made in order of address,
// so what an iteration gets depends only on what was live when it began, not on what ran before.
//
// A stream that takes over a range must wait for what used it. So a stream reuses only its own ranges, and of
// those that another stream freed all but the latest: a loader has two in turn and can fill one while the
// other is being read.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/ids.h"
#include "runtime/memory/address_habits.h"

namespace pooch::runtime {

class AddressSpace {
 public:
  // `gap`: bytes behind each range that belong to none. `largest_piece`: what a range's pieces of at most so
  // many bytes take behind its end is left to it as well (core/pages.h).
  AddressSpace(Address base, std::uint64_t bytes, std::uint64_t gap = 0, std::uint64_t largest_piece = 0)
      : base_(base), bytes_(bytes), gap_(gap), largest_piece_(largest_piece) {}

  bool contains(Address a) const { return a >= base_ && a - base_ < bytes_; }
  // A range of exactly `bytes` (a multiple of 2 MiB), or nothing where the arena has none left. `stream`: of
  // its first use, where that is known.
  std::optional<Address> allocate(std::uint64_t bytes, StreamHandle stream = StreamHandle{});
  // The smallest free range of the stream's that has so many bytes, and at most twice as many; nothing where
  // there is none.
  std::optional<Address> reuse(std::uint64_t bytes, StreamHandle stream);
  // A range of exactly `bytes` for one that a known iteration makes. Where earlier ones made it too: one of
  // the ranges that it had there, else the lowest free one that is no other allocation's, else (where it has
  // had few) a new one, else the lowest.
  std::optional<Address> allocate(std::uint64_t bytes, StreamHandle stream, const AddressHabits::When& when);
  // Which allocation of so many bytes, before this position of the phase, lay there; the latest.
  std::optional<AddressHabits::Allocation> made_at(Address base, std::uint64_t bytes, std::uint32_t phase,
                                                   std::uint64_t position) const;
  // A new free range of the stream that `like` belongs to; nothing where the arena has none left.
  std::optional<Address> set_aside(std::uint64_t bytes, Address like);
  // The allocation gets this free range from now on, as if it had lain there.
  void prefer(const AddressHabits::Allocation& of, Address base) { habits_.note(of, base); }
  void avoid(const AddressHabits::Allocation& of, Address base) { habits_.forget(of, base); }
  // Gives back what `allocate` gave; `stream`: the one that orders the free, if any.
  void free(Address base, StreamHandle stream = StreamHandle{});
  // The stream that the range belongs to: of its first use.
  StreamHandle owner(Address base) const { return made_.at(base).owner; }
  // Of the range, which was made and is not coalesced.
  std::uint64_t bytes(Address base) const { return made_.at(base).bytes; }
  // Ranges of a destroyed stream are for allocations without a stream.
  void disown(StreamHandle stream);
  // Forgets the sizes of these free ranges and joins neighbours, so that any size can be cut from them. The
  // caller has taken away whatever was mapped in them.
  void coalesce(const std::vector<std::pair<Address, std::uint64_t>>& ranges);

 private:
  struct Free {
    std::set<Address> ranges;
    std::optional<Address> latest;  // that another stream freed
  };
  struct Made {
    StreamHandle owner;
    std::uint64_t bytes;
  };
  bool take_free(Address base, std::uint64_t at_least, StreamHandle stream);
  std::uint64_t with_gap(std::uint64_t bytes) const;
  std::optional<Address> again(std::uint64_t bytes, StreamHandle stream, const AddressHabits::Allocation& of);
  std::optional<Address> make(std::uint64_t bytes, StreamHandle stream);
  std::optional<Address> cut(std::uint64_t bytes);

  Address base_;
  std::uint64_t bytes_, gap_, largest_piece_;
  std::uint64_t used_ = 0;  // bytes from `base_` that were ever handed out
  std::map<std::pair<StreamHandle, std::uint64_t>, Free> free_;  // by stream and size
  std::map<Address, Made> made_;                                 // every range, free or not
  std::map<Address, std::uint64_t> joined_;                      // free space without a fixed size
  AddressHabits habits_;
};

}  // namespace pooch::runtime
