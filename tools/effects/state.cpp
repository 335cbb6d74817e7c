#include "tools/effects/state.h"

#include <algorithm>

namespace pooch::effects {

Cell join(Values& values, const Cell& a, const Cell& b) {
  if (a.value == Values::bottom) return b;
  if (b.value == Values::bottom) return a;
  return {values.join(a.value, b.value), a.symbol == b.symbol ? a.symbol : 0,
          a.definition == b.definition ? a.definition : 0};
}

Predicate State::leader(const Predicate& predicate) const {
  const auto found = leaders_.find({predicate.uniform, false, predicate.number});
  if (found == leaders_.end()) return predicate;
  return predicate.negated ? found->second.opposite() : found->second;
}

const Cell& State::get(std::size_t reg, const std::optional<Predicate>& guard) const {
  if (!guard || guards_.empty()) return registers_[reg];
  const Predicate when = leader(*guard);
  const Cell* found = &registers_[reg];
  for (const Guarded& one : guards_) {
    if (one.reg != reg) continue;
    if (one.when == when) return one.cell;
    if (implies(when, one.when)) found = &one.cell;
  }
  return *found;
}

void State::set(Values& values, std::size_t reg, const Cell& cell, const std::optional<Predicate>& guard) {
  if (!guard) {
    registers_[reg] = cell;
    std::erase_if(guards_, [&](const Guarded& one) { return one.reg == reg; });
    return;
  }
  Cell other = get(reg, guard->opposite());
  // A uniform register is the warp's: a thread whose predicate does not hold sees what others wrote.
  if (reg >= index({true, 0}) && !guard->uniform) other = effects::join(values, other, cell);
  // What other predicates tell of this register holds no more, where this one holds.
  std::erase_if(guards_, [&](const Guarded& one) { return one.reg == reg; });
  registers_[reg] = effects::join(values, cell, other);
  const Predicate when = leader(*guard);
  guards_.push_back({reg, when, cell});
  guards_.push_back({reg, when.opposite(), other});
}

std::vector<Predicate> State::guards_of(const std::set<std::size_t>& registers) const {
  constexpr std::size_t most = 6;
  std::vector<Predicate> found;
  for (const Guarded& one : guards_)
    if (registers.contains(one.reg) && found.size() < most &&
        std::find(found.begin(), found.end(), one.when) == found.end())
      found.push_back(one.when);
  return found;
}

void State::know_nonzero(Values& values, const Predicate& when, std::size_t reg,
                         const std::vector<std::size_t>& lower) {
  std::vector<std::size_t> all = lower;
  all.push_back(reg);
  for (const std::size_t one : all) {
    const Cell cell = registers_[one];
    guards_.push_back({one, when, {values.without_zero(cell.value), cell.symbol, cell.definition}, true});
  }
}

std::vector<std::size_t> State::nonzero_by(const Predicate& when) const {
  std::vector<std::size_t> found;
  for (const Guarded& one : guards_)
    if (one.nonzero && one.when == leader(when)) found.push_back(one.reg);
  return found;
}

void State::forget(const Predicate& predicate) {
  const Predicate plain{predicate.uniform, false, predicate.number};
  if (leaders_.erase(plain) != 0) return;
  // One of its copies takes its place.
  std::optional<Predicate> heir;
  for (auto it = leaders_.begin(); it != leaders_.end();) {
    const bool same = it->second == plain || it->second == plain.opposite();
    if (same && !heir) {
      heir = it->second.negated ? it->first.opposite() : it->first;  // equal to `plain`
      it = leaders_.erase(it);
    } else {
      if (same) it->second = it->second.negated ? heir->opposite() : *heir;
      ++it;
    }
  }
  rename(plain, heir);
}

// Nothing in its place: what it says is forgotten.
void State::rename(const Predicate& from, const std::optional<Predicate>& to) {
  const auto is_it = [&](const Predicate& one) { return one == from || one == from.opposite(); };
  const auto renamed = [&](const Predicate& one) {
    return one == from ? *to : one == from.opposite() ? to->opposite() : one;
  };
  if (!to) {
    pass_on(from);
    std::erase_if(guards_, [&](const Guarded& one) { return is_it(one.when); });
  }
  for (Guarded& one : guards_) one.when = renamed(one.when);
  std::set<std::pair<Predicate, Predicate>> implied;
  for (const auto& [when, then] : implied_)
    if (to || !(is_it(when) || is_it(then))) implied.emplace(renamed(when), renamed(then));
  implied_ = std::move(implied);
}

// What a predicate says of registers is still so where another one holds that implied it.
void State::pass_on(const Predicate& predicate) {
  std::vector<Guarded> more;
  for (const auto& [when, then] : implied_)
    for (const Guarded& one : guards_)
      if (one.when == then && (then == predicate || then == predicate.opposite()) &&
          std::none_of(guards_.begin(), guards_.end(),
                       [&](const Guarded& has) { return has.reg == one.reg && has.when == when; }))
        more.push_back({one.reg, when, one.cell, one.nonzero});
  guards_.insert(guards_.end(), more.begin(), more.end());
}

void State::imply(const Predicate& when, const Predicate& then) {
  implied_.emplace(leader(when), leader(then));
}

bool State::implies(const Predicate& when, const Predicate& then) const {
  return implied_.contains({when, then});
}

void State::forget_predicates(bool uniform) {
  constexpr std::uint8_t predicates = 8;
  for (std::uint8_t number = 0; number < predicates; ++number) forget({uniform, false, number});
}

void State::copy(const Predicate& to, const Predicate& from) {
  const Predicate plain{to.uniform, false, to.number}, first = leader(from);
  if (first == plain || first == plain.opposite()) return;
  leaders_[plain] = to.negated ? first.opposite() : first;
}

void State::assume(const Predicate& predicate) {
  const Predicate when = leader(predicate);
  for (const Guarded& one : guards_)
    if (implies(when, one.when)) registers_[one.reg] = one.cell;
  for (const Guarded& one : guards_)
    if (one.when == when) registers_[one.reg] = one.cell;
}

Cell State::slot(Values& values, std::int64_t offset, unsigned half) const {
  const auto found = slots_.find(offset);
  Cell cell = found == slots_.end() ? Cell{} : found->second;
  if (scattered_[half] != Values::bottom) cell = effects::join(values, cell, {scattered_[half], 0});
  return cell;
}

void State::set_slot(Values& values, std::int64_t offset, const Cell& cell,
                     const std::optional<Predicate>& guard) {
  Cell& at = slots_[offset];
  at = guard ? effects::join(values, at, cell) : cell;
}

ValueId State::any_slot(Values& values, unsigned half, bool either) const {
  constexpr std::int64_t word = 8, middle = 4;
  ValueId all = scattered_[half];
  if (either) all = values.join(all, scattered_[1 - half]);
  for (const auto& [offset, cell] : slots_) {
    const bool upper = ((offset % word) + word) % word >= middle;
    if (either || upper == (half == 1)) all = values.join(all, cell.value);
  }
  return all;
}

void State::set_any_slot(Values& values, unsigned half, bool either, ValueId value) {
  for (unsigned i = 0; i < 2; ++i)
    if (either || i == half) scattered_[i] = values.join(scattered_[i], value);
}

bool State::join(Values& values, const State& other) {
  bool changed = join_guards(values, other);
  for (std::size_t i = 0; i < registers_.size(); ++i) {
    if (registers_[i] == other.registers_[i]) continue;
    const Cell both = effects::join(values, registers_[i], other.registers_[i]);
    changed = changed || !(both == registers_[i]);
    registers_[i] = both;
  }
  for (const auto& [offset, cell] : other.slots_) {
    Cell& mine = slots_[offset];
    const Cell both = effects::join(values, mine, cell);
    changed = changed || !(both == mine);
    mine = both;
  }
  for (std::size_t i = 0; i < scattered_.size(); ++i) {
    const ValueId both = values.join(scattered_[i], other.scattered_[i]);
    changed = changed || both != scattered_[i];
    scattered_[i] = both;
  }
  changed = shared.join(values, other.shared) || changed;
  changed = shared_before.join(values, other.shared_before) || changed;
  for (const auto& [name, targets] : other.barriers)
    for (const std::size_t target : targets) changed = barriers[name].insert(target).second || changed;
  return changed;
}

// Kept where this side has one; the other's register stands for what it does not tell.
bool State::join_guards(Values& values, const State& other) {
  bool changed = std::erase_if(leaders_, [&](const auto& one) {
                   const auto theirs = other.leaders_.find(one.first);
                   return theirs == other.leaders_.end() || theirs->second != one.second;
                 }) != 0;
  changed =
      std::erase_if(implied_, [&](const auto& one) { return !other.implied_.contains(one); }) != 0 || changed;
  for (Guarded& one : guards_) {
    const Cell both = effects::join(values, one.cell, other.get(one.reg, one.when));
    changed = changed || !(both == one.cell);
    one.cell = both;
  }
  return changed;
}

}  // namespace pooch::effects
