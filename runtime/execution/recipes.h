// How live buffers were made, for ops that no plan covers: the calls that make a buffer again, and what these
// read.
//
//   an op overwrites a buffer --> it has a recipe
//   an op changes it in place --> that call belongs to the recipe
//   an op changes it otherwise, or what its calls read is changed or freed --> it has none
//
// The session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/call.h"
#include "runtime/execution/kept_call.h"
#include "runtime/memory/chunk.h"
#include "tracker/tracker.h"

namespace pooch::runtime {

struct Recipe {
  // What its calls use beside the buffer itself.
  struct Input {
    AllocationId allocation;
    bool read;  // else its content does not matter, but it must be there
  };

  AllocationId buffer{};
  Range* range = nullptr;
  std::uint64_t bytes = 0;  // that the calls write, from the buffer's start
  std::vector<std::shared_ptr<const KeptCall>> calls;
  std::vector<std::uint64_t> keys;  // Op::local_key, by call
  std::vector<Input> inputs;
  // Equal for the same buffer of every iteration, as far as ops repeat.
  std::uint32_t number = 0;
  bool dropped = false;

  bool reads(AllocationId allocation) const;
};

class Recipes {
 public:
  // Whether the op makes a buffer, or changes one in place, in a way that a replay of the call could.
  bool wants(const Call& call, const tracker::Op& op) const;
  // The op was launched. `kept`: the call, if it is wanted; nullptr: it cannot be replayed.
  void launched(const tracker::Op& op, const std::shared_ptr<const KeptCall>& kept);
  // The allocation ends.
  void freed(AllocationId allocation);
  // All but those of what is dropped.
  void forget_what_is_there();
  void forget_all();

  bool empty() const { return by_buffer_.empty(); }
  // nullptr: it has none. Valid until the buffer's recipe is forgotten.
  Recipe* of(AllocationId buffer);
  const Recipe* of(AllocationId buffer) const;
  // Buffers whose calls use the allocation.
  std::vector<AllocationId> fed_by(AllocationId allocation) const;
  void set_dropped(Recipe& recipe, bool dropped);
  std::size_t count_dropped() const { return dropped_; }
  // The one that was allocated first; nothing: none is.
  std::optional<AllocationId> any_dropped() const;
  // Numbers of those that were dropped when they were forgotten, since the last call.
  std::vector<std::uint32_t> take_lost() { return std::exchange(lost_, {}); }

 private:
  static bool makes(const tracker::Op& op, std::size_t operand);
  void forget(AllocationId buffer);
  const Recipe* changed_in_place(const tracker::Op& op) const;
  void changed(AllocationId allocation, const Recipe* but);
  void add_call(Recipe& recipe, const tracker::Op& op, const std::shared_ptr<const KeptCall>& kept);
  void give_number(Recipe& recipe);
  void take_number(const Recipe& recipe);

  std::unordered_map<AllocationId, Recipe> by_buffer_;
  std::unordered_map<AllocationId, std::set<AllocationId>> fed_by_;  // buffers by what their calls use
  std::map<std::vector<std::uint64_t>, std::set<std::uint32_t>> free_numbers_;  // by the calls' keys
  std::uint32_t numbers_ = 0;
  std::size_t dropped_ = 0;
  std::vector<std::uint32_t> lost_;
};

}  // namespace pooch::runtime
