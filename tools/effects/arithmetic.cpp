// Sums, products, shifts: what they make of addresses.
#include <algorithm>
#include <cmath>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {}  // namespace

Cell Machine::derived(const State& state, const Instruction& one, const std::vector<const Operand*>& from) {
  ValueId all = values_.integer();
  for (const Operand* const operand : from)
    if (operand->kind != OperandKind::other && operand->kind != OperandKind::special)
      all = values_.add(all, values_.derive(source(state, one, *operand, 0).value));
  return {all, 0};
}

Cell Machine::add(const State& state, const Instruction& one, const std::vector<const Operand*>& from,
                  unsigned half) {
  Cell sum = known(0);
  for (const Operand* const operand : from) {
    const Cell term = source(state, one, *operand, half);
    sum = {values_.add(sum.value, term.value), symbols_.add(sum.symbol, term.symbol)};
  }
  // With a carry nobody knows the number.
  if (one.has("X") || half != 0) sum.symbol = 0;
  return sum;
}

// The lower 32 bits.
Cell Machine::product(const Cell& a, const Cell& b) {
  for (const auto& [factor, other] : {std::pair(a, b), std::pair(b, a)}) {
    if (symbols_.is_constant(factor.symbol, 0)) return known(0);
    if (symbols_.is_constant(factor.symbol, 1)) return other;
    if (symbols_.is_constant(factor.symbol, 0xffffffff)) return {values_.negate(other.value), 0};
  }
  return {values_.derive(a.value, b.value), symbols_.multiply(a.symbol, b.symbol)};
}

std::vector<Cell> Machine::multiply_add(const State& state, const Instruction& one,
                                        const std::vector<const Operand*>& from) {
  if (from.size() < 2) return {};
  const Cell a = source(state, one, *from[0], 0), b = source(state, one, *from[1], 0);
  const Cell c = from.size() > 2 ? source(state, one, *from[2], 0) : known(0);
  const ValueId upper = symbols_.is_constant(a.symbol, 0) || symbols_.is_constant(b.symbol, 0)
                            ? values_.zero()
                            : values_.derive(a.value, b.value);
  if (one.has("HI")) return {{values_.add(upper, c.value), 0}};
  const Cell low = product(a, b);
  Cell sum{values_.add(low.value, c.value), symbols_.add(low.symbol, c.symbol)};
  if (one.has("X")) sum.symbol = 0;
  if (!one.has("WIDE")) return {sum};
  const Cell high = from.size() > 2 ? source(state, one, *from[2], 1) : known(0);
  return {sum, {values_.add(upper, high.value), 0}};
}

// (a << n) + b, or with HI the upper half of that, where the operand behind b has the upper half of a.
Cell Machine::shift_add(const State& state, const Instruction& one, const std::vector<const Operand*>& from) {
  if (from.size() < 2) return {values_.unknown(), 0};
  const Cell a = source(state, one, *from[0], 0), b = source(state, one, *from[1], 0);
  const Operand& amount = *from.back();
  const bool known_amount = from.size() > 2 && amount.kind == OperandKind::immediate;
  if (one.has("HI")) {
    ValueId upper = values_.derive(a.value);
    if (from.size() > 3) upper = values_.add(upper, values_.derive(source(state, one, *from[2], 0).value));
    return {values_.add(upper, b.value), 0};
  }
  if (known_amount && amount.number == 0)
    return {values_.add(a.value, b.value), one.has("X") ? 0 : symbols_.add(a.symbol, b.symbol)};
  const SymbolId factor = known_amount && amount.number < 32 ? symbols_.constant(1ULL << amount.number) : 0;
  const SymbolId sum = symbols_.add(symbols_.multiply(a.symbol, factor), b.symbol);
  return {values_.add(values_.derive(a.value), b.value), one.has("X") ? 0 : sum};
}

Cell Machine::shift(const State& state, const Instruction& one, const std::vector<const Operand*>& from) {
  Cell made = derived(state, one, from);
  if (from.size() < 2) return made;
  const Operand& amount = *from[1];
  const Cell a = source(state, one, *from[0], 0);
  const bool left = one.has("L") || one.name == "SHL" || one.name == "USHL";
  if (left && !one.has("HI") && amount.kind == OperandKind::immediate && amount.number < 32) {
    if (amount.number == 0) return a;
    made.symbol = symbols_.multiply(a.symbol, symbols_.constant(1ULL << amount.number));
  }
  if (symbols_[a.symbol].kind == SymbolKind::constant && symbols_[a.symbol].number == 0 &&
      (from.size() < 3 || (from[2]->kind == OperandKind::reg && !from[2]->reg)))
    return known(0);
  return made;
}

Cell Machine::logic(const State& state, const Instruction& one, const std::vector<const Operand*>& from) {
  constexpr std::int64_t bitwise_and = 0xc0;
  const std::size_t inputs = one.name == "LOP3" || one.name == "ULOP3" ? 3 : 2;
  if (from.size() < inputs) return {values_.unknown(), 0};
  std::vector<Cell> in;
  for (std::size_t i = 0; i < inputs; ++i) in.push_back(source(state, one, *from[i], 0));
  const bool is_and = inputs == 3 && from.size() > 3 && from[3]->kind == OperandKind::immediate &&
                      from[3]->number == bitwise_and;
  ValueId sum = values_.zero();
  bool small = false;
  SymbolId symbol = 0;
  for (std::size_t i = 0; is_and && i < 2; ++i) {
    const Symbol& bits = symbols_[in[i].symbol];
    if (bits.kind != SymbolKind::constant) continue;
    small = small || bits.number < 0x80000000;
    symbol = symbols_.mask(in[1 - i].symbol, in[i].symbol);
  }
  for (const Cell& cell : in) sum = values_.add(sum, small ? values_.derive(cell.value) : cell.value);
  return {sum, symbol};
}

// Bytes of the first and the last operand, as the second says. Compilers set half a register and use no more
// of it: the other half, which nothing has set, is some number.
Cell Machine::permute(const State& state, const Instruction& one, const std::vector<const Operand*>& from) {
  constexpr std::int64_t lowest_byte = 0x7770, lower_half = 0x7710, all = 0x3210;
  if (from.size() < 3) return {values_.unknown(), 0};
  const auto bytes_of = [&](const Operand& operand) {
    const Cell cell = source(state, one, operand, 0);
    return cell.value == Values::bottom ? Cell{values_.integer(), 0} : cell;
  };
  const Cell a = bytes_of(*from[0]), b = bytes_of(*from[2]);
  SymbolId symbol = 0;
  if (from[1]->kind == OperandKind::immediate) {
    if (from[1]->number == all) return a;
    const bool zero = from[2]->kind == OperandKind::reg && !from[2]->reg;
    if (zero && from[1]->number == lowest_byte) symbol = symbols_.mask(a.symbol, symbols_.constant(0xff));
    if (zero && from[1]->number == lower_half) symbol = symbols_.mask(a.symbol, symbols_.constant(0xffff));
  }
  return {values_.add(a.value, b.value), symbol};
}

Cell Machine::select(const State& state, const Instruction& one, const std::vector<const Operand*>& from,
                     unsigned half) {
  const std::size_t inputs = one.name.ends_with("MNMX3") ? 3 : 2;
  if (from.size() < inputs) return {values_.unknown(), 0};
  Cell any = source(state, one, *from[0], half);
  for (std::size_t i = 1; i < inputs; ++i) any = join(values_, any, source(state, one, *from[i], half));
  return any;
}

}  // namespace pooch::effects
