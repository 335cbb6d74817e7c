// The accesses that a run saw, and what they come to for the kernel.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tools/effects/kernel.h"
#include "tools/effects/sass.h"
#include "tools/effects/value.h"

namespace pooch::effects {

class Accesses {
 public:
  // The instruction touches what this address names; again, with other addresses, adds them.
  void touch(Values& values, std::size_t instruction, Effect effect, ValueId low, ValueId high);
  // A tensor map's memory. `symbol` says where among the parameters the map lies.
  void touch_map(std::size_t instruction, Effect effect, SymbolId symbol) {
    maps_.insert({instruction, effect, symbol});
  }
  void hide(std::size_t instruction, std::string why) { hidden_.emplace(instruction, std::move(why)); }
  void lose(std::size_t instruction, std::string why) { lost_.emplace(instruction, std::move(why)); }
  bool lost() const { return !lost_.empty(); }
  void print() { prints_ = true; }
  // `bytes` of the parameters are read.
  void read_constant(std::int64_t offset, unsigned bytes);
  void read_indexed(std::int64_t offset) { indexed_.insert(offset); }
  void read_all_constants() { all_constants_ = true; }

  KernelEffects summary(const Kernel& kernel, const Code& code, Values& values, const Symbols& symbols) const;

 private:
  struct Map {
    std::size_t instruction;
    Effect effect;
    SymbolId symbol;
    auto operator<=>(const Map&) const = default;
  };

  std::map<std::pair<std::size_t, Effect>, std::pair<ValueId, ValueId>> touches_;
  std::set<Map> maps_;
  std::set<std::pair<std::size_t, std::string>> hidden_, lost_;
  std::set<std::uint32_t> constants_;
  std::set<std::int64_t> indexed_;
  bool all_constants_ = false, prints_ = false;
};

}  // namespace pooch::effects
