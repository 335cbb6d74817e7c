// What registers and the stack may hold at one place of a kernel.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tools/effects/sass.h"
#include "tools/effects/shared.h"
#include "tools/effects/value.h"

namespace pooch::effects {

struct Cell {
  ValueId value = Values::bottom;
  SymbolId symbol = 0;
  // Which instruction set this register, where a thread runs that once at most. 0: nobody knows.
  std::uint32_t definition = 0;

  bool operator==(const Cell&) const = default;
};

// Both may be there. A symbol or a definition stays where they agree, or where one was never set.
Cell join(Values& values, const Cell& a, const Cell& b);

// A register was written under a predicate: while the predicate holds it has one content, else the other.
// Without this, what was there before would be taken for an address wherever the predicate is asked again.
struct Guarded {
  std::size_t reg;
  Predicate when;
  Cell cell;
  bool nonzero = false;  // the predicate says that it is not 0
};

class State {
 public:
  static std::size_t index(Register reg) { return reg.number + (reg.uniform ? 256U : 0U); }

  // As an instruction under `guard` sees it.
  const Cell& get(std::size_t reg, const std::optional<Predicate>& guard) const;
  void set(Values& values, std::size_t reg, const Cell& cell, const std::optional<Predicate>& guard);
  // By which these registers are guarded, with both signs; a few of them.
  std::vector<Predicate> guards_of(const std::set<std::size_t>& registers) const;
  // What the register holds while the predicate does, after set().
  void add_guard(std::size_t reg, const Predicate& when, const Cell& cell) {
    guards_.push_back({reg, when, cell});
  }
  // The predicate says that this register is not 0, and of a longer number others as well: `lower`.
  void know_nonzero(Values& values, const Predicate& when, std::size_t reg,
                    const std::vector<std::size_t>& lower);
  // Registers that are known so by this predicate.
  std::vector<std::size_t> nonzero_by(const Predicate& when) const;
  // The predicate was written. It is meant with both signs.
  void forget(const Predicate& predicate);
  // It is `from` now, which has its sign.
  void copy(const Predicate& to, const Predicate& from);
  // Where `when` holds, `then` does; both have their sign.
  void imply(const Predicate& when, const Predicate& then);
  void forget_predicates(bool uniform);
  // The predicate holds from here on.
  void assume(const Predicate& predicate);

  // The stack, by offset from where it was at the beginning.
  Cell slot(Values& values, std::int64_t offset, unsigned half) const;
  void set_slot(Values& values, std::int64_t offset, const Cell& cell, const std::optional<Predicate>& guard);
  // Somewhere in it, a whole 64-bit word's half, or either.
  ValueId any_slot(Values& values, unsigned half, bool either) const;
  void set_any_slot(Values& values, unsigned half, bool either, ValueId value);
  const std::map<std::int64_t, Cell>& slots() const { return slots_; }

  // Of shared memory: what this way has stored, and what it had stored at the last barrier.
  SharedContent shared, shared_before;

  // The places that a convergence barrier may lead to.
  std::map<std::string, std::set<std::size_t>> barriers;

  // True: this has changed.
  bool join(Values& values, const State& other);

 private:
  bool join_guards(Values& values, const State& other);
  bool implies(const Predicate& when, const Predicate& then) const;
  void pass_on(const Predicate& predicate);
  void rename(const Predicate& from, const std::optional<Predicate>& to);
  // The one by which guards are kept, of those that are known to be equal.
  Predicate leader(const Predicate& predicate) const;

  std::array<Cell, 512> registers_{};
  std::vector<Guarded> guards_;
  std::map<Predicate, Predicate> leaders_;             // by predicates that are copies, without sign
  std::set<std::pair<Predicate, Predicate>> implied_;  // the second by the first, both leaders
  std::map<std::int64_t, Cell> slots_;
  std::array<ValueId, 2> scattered_{};  // stored to the stack, nobody knows where; by half
};

}  // namespace pooch::effects
