// When the steps of a script are expected to run, and when each buffer's memory is needed. A part of
// Script::compile.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/script/script.h"

namespace pooch::runtime {

class ScriptLives {
 public:
  static constexpr std::uint32_t no_map = ~std::uint32_t{0};
  // By slot: the first and the last replay that use it.
  using SlotUses = std::map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>;

  // Of a script whose maps, actions, replays and slots are there. `map_of_buffer`: indices of its maps, or
  // no_map. `out_us_per_byte`: of copies to the host whose times the plan does not tell.
  ScriptLives(Script& script, const PhaseProfile& phase, const std::vector<std::uint32_t>& map_of_buffer,
              double out_us_per_byte)
      : script_(script), phase_(phase), map_of_buffer_(map_of_buffer), out_us_per_byte_(out_us_per_byte) {}

  void find(const SlotUses& uses_of_slot) {
    find_starts(uses_of_slot);
    find_lives();
    find_copies();
    leave_again();
  }

 private:
  std::int32_t ops() const { return static_cast<std::int32_t>(phase_.ops.size()); }
  void find_starts(const SlotUses& uses_of_slot);
  double us_of(const ScriptReplay& replay) const;
  void find_copies();
  void leave_again();
  void find_lives();
  void use(std::uint32_t buffer, std::int32_t position);
  void find_uses();
  void find_last_of_size();
  std::int32_t freed_before(const ProfileBuffer& buffer, const ScriptLife& life) const;
  void find_predecessor(const ProfileBuffer& buffer, ScriptLife& life) const;
  void find_returns(std::uint32_t map, ScriptLife& life) const;
  void find_absence(std::uint32_t map, ScriptLife& life) const;

  Script& script_;
  const PhaseProfile& phase_;
  const std::vector<std::uint32_t>& map_of_buffer_;
  const double out_us_per_byte_;
  // By bytes: before which op the last buffer from an earlier iteration is freed.
  std::map<std::uint64_t, std::int32_t> last_of_size_;
  std::multimap<std::int32_t, std::uint32_t> leaving_again_;  // maps, by their last use
};

}  // namespace pooch::runtime
