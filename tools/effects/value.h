// What half an address may have come from.
//
// A value is a set of alternatives, one for each way by which control may have come; an alternative is the
// set of terms that were added up. Of `p + i * 4` the terms are the word p: what was multiplied or shifted is
// an integer now. Where it came from is kept beside the alternatives, because shifting back would make an
// address of it again.
//
//   value          alternatives                      derived from
//   p              { {p} }                           {}
//   p + i * 4      { {p} }                           {i}
//   c ? p : q      { {p}, {q} }                      {}
//   p + n          { {p, n} }                        {}
//   never set      {}                                {}
//   0x400          { constant }                      {}
//   threadIdx.x    { integer }                       {}
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/effects/symbol.h"

namespace pooch::effects {

enum class Origin : std::uint8_t {
  word,           // a constant of the parameters, at byte `offset`
  table,          // likewise, at `offset` plus the value of `index`
  loaded,         // what lay in memory that may be written by anybody
  module,         // an address of the module's own variables and functions, by its place in bank 4
  constant_bank,  // what the program put into constant memory
  driver,         // what the driver puts before the parameters: sizes, addresses of its own memory
  window,         // where the parameters are in the generic address space
  shared_window,
  local_window,
  heap,     // what malloc gave
  unknown,  // anything
};

struct Term {
  Origin origin;
  bool negative = false;
  std::int64_t offset = 0;
  SymbolId index = 0;

  auto operator<=>(const Term&) const = default;
};

using TermId = std::uint32_t;
using ValueId = std::uint32_t;

// What it is without terms.
enum class Plain : std::uint8_t {
  zero,
  constant,  // of the code
  integer,
};

struct Alternative {
  std::vector<TermId> terms;  // sorted
  Plain plain = Plain::zero;  // zero where there are terms
  bool merged = false;        // of several: any of its terms may be missing

  auto operator<=>(const Alternative&) const = default;
};

// What went into it by multiplication, a shift or in any other way but a sum.
struct Derived {
  std::vector<std::uint32_t> words;  // of 8 bytes, by number; sorted
  bool any_word = false, loaded = false;

  auto operator<=>(const Derived&) const = default;
};

struct Value {
  std::vector<Alternative> alternatives;  // sorted
  Derived derived;

  auto operator<=>(const Value&) const = default;
};

// Equal values have equal ids.
class Values {
 public:
  Values();

  static constexpr ValueId bottom = 0;
  ValueId zero() const { return zero_; }
  ValueId constant() const { return constant_; }
  ValueId integer() const { return integer_; }
  ValueId unknown() const { return unknown_; }
  ValueId of(const Term& term);

  const Value& operator[](ValueId id) const { return all_[id]; }
  const Term& term(TermId id) const { return terms_[id]; }

  ValueId join(ValueId a, ValueId b);
  ValueId add(ValueId a, ValueId b);
  // -a or ~a.
  ValueId negate(ValueId a);
  // An integer that was made of it.
  ValueId derive(ValueId a);
  ValueId derive(ValueId a, ValueId b) { return add(derive(a), derive(b)); }

  // Less the alternative that it is 0, where there are others.
  ValueId without_zero(ValueId a);

  bool has(ValueId id, Origin origin) const;

 private:
  ValueId intern(Value value);
  TermId intern(const Term& term);
  void limit(Value& value);

  std::vector<Term> terms_;
  std::map<Term, TermId> term_ids_;
  std::vector<Value> all_;
  std::map<Value, ValueId> ids_;
  std::unordered_map<std::uint64_t, ValueId> joins_, sums_;
  std::vector<ValueId> derived_;  // 0: not yet known
  ValueId zero_, constant_, integer_, unknown_;
};

}  // namespace pooch::effects
