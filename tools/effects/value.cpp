#include "tools/effects/value.h"

#include <algorithm>
#include <set>
#include <utility>

namespace pooch::effects {
namespace {

constexpr std::size_t most_alternatives = 24, most_derived = 96;
constexpr std::uint32_t word_bytes = 8;

template <class T>
std::vector<T> merged(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> all;
  all.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

Derived merged(const Derived& a, const Derived& b) {
  Derived both{merged(a.words, b.words), a.any_word || b.any_word, a.loaded || b.loaded};
  if (both.words.size() > most_derived) both.any_word = true;
  if (both.any_word) both.words.clear();
  return both;
}

std::uint64_t pair_of(ValueId a, ValueId b) {
  return std::uint64_t{a} << 32 | b;
}

}  // namespace

Values::Values() {
  intern(Value{});  // bottom
  zero_ = intern({{{{}, Plain::zero, false}}, {}});
  constant_ = intern({{{{}, Plain::constant, false}}, {}});
  integer_ = intern({{{{}, Plain::integer, false}}, {}});
  unknown_ = of({Origin::unknown});
}

TermId Values::intern(const Term& term) {
  const auto [found, is_new] = term_ids_.emplace(term, static_cast<TermId>(terms_.size()));
  if (is_new) terms_.push_back(term);
  return found->second;
}

ValueId Values::intern(Value value) {
  const auto [found, is_new] = ids_.emplace(std::move(value), static_cast<ValueId>(all_.size()));
  if (is_new) all_.push_back(found->first);
  return found->second;
}

ValueId Values::of(const Term& term) {
  return intern({{{{intern(term)}, Plain::zero, false}}, {}});
}

// Too many alternatives become one, of whose terms each may be the address; what had none may be any. It
// takes up what comes later and has no other terms, so that it only grows.
void Values::limit(Value& value) {
  const bool too_many = value.alternatives.size() > most_alternatives;
  Alternative all;
  for (const Alternative& one : value.alternatives) {
    if (!one.merged && !too_many) continue;
    all.terms =
        merged(all.terms, one.plain == Plain::integer ? std::vector{intern({Origin::unknown})} : one.terms);
    all.merged = true;
  }
  if (!all.merged) return;
  std::erase_if(value.alternatives, [&](const Alternative& one) {
    return too_many || one.merged ||
           (!one.terms.empty() &&
            std::includes(all.terms.begin(), all.terms.end(), one.terms.begin(), one.terms.end()));
  });
  value.alternatives.push_back(std::move(all));
  std::sort(value.alternatives.begin(), value.alternatives.end());
}

ValueId Values::join(ValueId a, ValueId b) {
  if (a == b || b == bottom) return a;
  if (a == bottom) return b;
  if (a == unknown_ || b == unknown_) return unknown_;
  if (a > b) std::swap(a, b);
  if (const auto known = joins_.find(pair_of(a, b)); known != joins_.end()) return known->second;
  Value both{merged(all_[a].alternatives, all_[b].alternatives), merged(all_[a].derived, all_[b].derived)};
  limit(both);
  return joins_[pair_of(a, b)] = intern(std::move(both));
}

ValueId Values::add(ValueId a, ValueId b) {
  if (a == bottom || b == bottom) return bottom;
  if (a == zero_) return b;
  if (b == zero_) return a;
  if (a > b) std::swap(a, b);
  if (const auto known = sums_.find(pair_of(a, b)); known != sums_.end()) return known->second;
  std::set<Alternative> sums;
  for (const Alternative& x : all_[a].alternatives)
    for (const Alternative& y : all_[b].alternatives) {
      Alternative sum{merged(x.terms, y.terms), Plain::zero, false};
      if (sum.terms.empty()) sum.plain = std::max(x.plain, y.plain);
      sum.merged = x.merged || y.merged;
      sums.insert(std::move(sum));
    }
  Value both{{sums.begin(), sums.end()}, merged(all_[a].derived, all_[b].derived)};
  limit(both);
  return sums_[pair_of(a, b)] = intern(std::move(both));
}

ValueId Values::negate(ValueId a) {
  Value value = all_[a];
  for (Alternative& one : value.alternatives) {
    for (TermId& id : one.terms) {
      Term term = terms_[id];
      term.negative = !term.negative;
      id = intern(term);
    }
    std::sort(one.terms.begin(), one.terms.end());
  }
  std::sort(value.alternatives.begin(), value.alternatives.end());
  return intern(std::move(value));
}

ValueId Values::derive(ValueId a) {
  if (a == bottom || a == zero_ || a == constant_ || a == integer_) return a;
  if (a < derived_.size() && derived_[a] != 0) return derived_[a];
  Value made;
  Derived from;
  Plain plain = Plain::zero;
  for (const Alternative& one : all_[a].alternatives) {
    plain = std::max(plain, one.terms.empty() ? one.plain : Plain::integer);
    for (const TermId id : one.terms) {
      const Term& term = terms_[id];
      if (term.origin == Origin::word)
        from.words.push_back(static_cast<std::uint32_t>(term.offset / word_bytes));
      from.any_word = from.any_word || term.origin == Origin::table || term.origin == Origin::unknown;
      from.loaded = from.loaded || term.origin == Origin::loaded || term.origin == Origin::constant_bank ||
                    term.origin == Origin::unknown;
    }
  }
  std::sort(from.words.begin(), from.words.end());
  from.words.erase(std::unique(from.words.begin(), from.words.end()), from.words.end());
  made.derived = merged(from, all_[a].derived);
  made.alternatives = {{{}, plain, false}};
  const ValueId id = intern(std::move(made));
  if (derived_.size() <= a) derived_.resize(all_.size(), 0);
  return derived_[a] = id;
}

ValueId Values::without_zero(ValueId a) {
  Value value = all_[a];
  std::erase_if(value.alternatives,
                [](const Alternative& one) { return one.terms.empty() && one.plain == Plain::zero; });
  return value.alternatives.empty() ? a : intern(std::move(value));
}

bool Values::has(ValueId id, Origin origin) const {
  for (const Alternative& one : all_[id].alternatives)
    for (const TermId term : one.terms)
      if (terms_[term].origin == origin) return true;
  return false;
}

}  // namespace pooch::effects
