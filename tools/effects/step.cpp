// One instruction after the other.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {

// The bits of a number of 16 bits with a point; nothing where it has no such bits exactly.
std::optional<std::uint16_t> half_bits(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  const std::uint16_t sign = std::signbit(number) ? 0x8000 : 0;
  const double size = std::fabs(number);
  if (size == 0) return sign;
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  const int biased = exponent + 14;
  const double bits = biased > 0 ? std::ldexp(fraction, 11) : std::ldexp(size, 24);
  if (biased > 30 || bits != std::floor(bits)) return std::nullopt;
  const auto mantissa = static_cast<std::uint16_t>(bits);
  return static_cast<std::uint16_t>(sign | (biased > 0 ? (biased << 10) | (mantissa & 0x3ff) : mantissa));
}

std::optional<std::uint16_t> half_bits(const Operand& operand) {
  if (operand.kind == OperandKind::immediate) return half_bits(static_cast<double>(operand.number));
  if (operand.kind != OperandKind::floating) return std::nullopt;
  return half_bits(std::strtod(operand.text.c_str(), nullptr));
}

bool writes_registers(Action action) {
  switch (action) {
    case Action::data:
    case Action::move:
    case Action::select:
    case Action::add:
    case Action::multiply_add:
    case Action::shift_add:
    case Action::shift:
    case Action::logic:
    case Action::permute:
    case Action::shuffle:
    case Action::constant_load:
    case Action::special:
    case Action::half:
      return true;
    default:
      return false;
  }
}

// PLOP3.LUT P0, PT, PT, PT, UP1, 0x80, 0x8: the conjunction of true things and one other.
std::optional<Predicate> copied_predicate(const Instruction& one) {
  constexpr std::int64_t conjunction = 0x80;
  constexpr std::size_t first_input = 2, inputs = 3;
  const auto& in = one.operands;
  if ((one.name != "PLOP3" && one.name != "UPLOP3") || in.size() != 7 || one.guard || !in[0].predicate ||
      in[1].predicate || in[5].kind != OperandKind::immediate || in[5].number != conjunction)
    return std::nullopt;
  std::optional<Predicate> found;
  for (std::size_t i = first_input; i < first_input + inputs; ++i) {
    if (in[i].kind != OperandKind::predicate || (!in[i].predicate && in[i].negated)) return std::nullopt;
    if (!in[i].predicate) continue;
    if (found) return std::nullopt;
    found = in[i].predicate;
  }
  return found;
}

// ISETP.NE.AND P0, PT, RZ, R4, PT: which predicate says of which register that it is not 0. Of longer numbers
// the last of several comparisons, EX, has the upper part, and the predicate of the others.
std::optional<std::pair<Predicate, std::size_t>> nonzero_test(const Instruction& one) {
  constexpr std::size_t first_input = 2;
  const auto& in = one.operands;
  const bool differs = one.has("NE"), equals = one.has("EQ");
  if ((one.name != "ISETP" && one.name != "UISETP") || one.guard || in.size() < 5 || !in[0].predicate ||
      in[1].predicate || !one.has("AND") || one.has("64") || one.has("U64") || !(differs || equals))
    return std::nullopt;
  // A further condition that has to hold as well says nothing where one is not equal.
  if (equals && (in[4].kind != OperandKind::predicate || in[4].predicate || in[4].negated))
    return std::nullopt;
  if (one.has("EX") && (in.size() < 6 || in[5].predicate != in[0].predicate)) return std::nullopt;
  const Operand *a = &in[first_input], *b = &in[first_input + 1];
  if (a->kind != OperandKind::reg || a->reg) std::swap(a, b);
  if (a->kind != OperandKind::reg || a->reg || b->kind != OperandKind::reg || !b->reg) return std::nullopt;
  return std::pair(differs ? *in[0].predicate : in[0].predicate->opposite(), State::index(*b->reg));
}

// VOTEU.ANY UP0, P0: which predicate says that another one holds.
std::optional<std::pair<Predicate, Predicate>> voted(const Instruction& one) {
  const auto& in = one.operands;
  const bool any = one.has("ANY"), all = one.has("ALL");
  if ((one.name != "VOTE" && one.name != "VOTEU" && one.name != "UVOTE") || one.guard || any == all ||
      in.size() < 2)
    return std::nullopt;
  const Operand &result = in[in.size() - 2], &asked = in.back();
  if (result.kind != OperandKind::predicate || !result.predicate || asked.kind != OperandKind::predicate ||
      !asked.predicate ||
      (result.predicate->uniform == asked.predicate->uniform &&
       result.predicate->number == asked.predicate->number))
    return std::nullopt;
  return any ? std::pair(*asked.predicate, *result.predicate)
             : std::pair(asked.predicate->opposite(), result.predicate->opposite());
}

bool is_memory(Action action) {
  return action >= Action::load && action <= Action::texture;
}

}  // namespace

void Machine::step(State& state, std::size_t at) {
  const Instruction& one = code_.instructions[at];
  at_ = at;
  if (one.never) return;
  const auto action = action_of(one);
  if (!action) {
    accesses_.lose(at, one.name.empty() ? "a line that cannot be read" : "an instruction that nobody knows");
    return;
  }
  guard_ = one.guard;
  read_constants(state, one, *action);
  if (is_memory(*action)) {
    step_memory(state, at, *action);
  } else if (writes_registers(*action)) {
    compute(state, one, *action);
  } else if (*action == Action::call) {
    step_call(state, at);
  } else if (*action == Action::diverge || *action == Action::barrier_move) {
    const auto name = std::find_if(one.operands.begin(), one.operands.end(),
                                   [](const Operand& o) { return o.kind == OperandKind::barrier; });
    const auto target = block_of(one);
    if (name != one.operands.end() && *action == Action::barrier_move && name == one.operands.begin())
      state.barriers[name->text] = barrier_targets_[name->text];
    else if (name != one.operands.end() && target)
      state.barriers[name->text] = {*target};
    if (*action == Action::barrier_move && name != one.operands.begin())
      write(state, one, {{values_.integer(), 0}});
  }
  if (ends_block(*action)) return;
  const auto copied = copied_predicate(one);
  // What it was is meant, should it be its own copy.
  if (copied && one.operands[0].predicate == copied) return;
  const auto tested = nonzero_test(one);
  const auto lower = tested && one.has("EX") ? state.nonzero_by(tested->first) : std::vector<std::size_t>();
  forget_predicates(state, one);
  if (tested) state.know_nonzero(values_, tested->first, tested->second, lower);
  if (copied) state.copy(*one.operands[0].predicate, *copied);
  if (const auto vote = voted(one)) state.imply(vote->first, vote->second);
}

// What is compared or computed with is read, whatever becomes of it.
void Machine::read_constants(const State& state, const Instruction& one, Action action) {
  if (action == Action::constant_load) return;
  const bool wide = one.name.starts_with("D") || one.has("64") || one.has("F64") || one.has("S64") ||
                    one.has("U64") || one.has("WIDE");
  for (const Operand& operand : one.operands)
    for (unsigned half = 0; operand.kind == OperandKind::constant && half < (wide ? 2U : 1U); ++half)
      (void)constant(state, one, operand, 4 * half, 4, false);
}

// What a register holds that was made of guarded ones is as guarded as they are.
void Machine::compute(State& state, const Instruction& one, Action action) {
  const unsigned count = register_count(one, action);
  const auto results = result(state, one, action, count);
  std::vector<std::pair<Predicate, std::vector<Cell>>> guarded;
  // From other lanes comes what is guarded by their own predicates.
  const bool crosses_lanes = action == Action::shuffle || one.name == "R2UR";
  if (one.name == "SYNCS" && (one.has("EXCH") || one.has("CAS")))
    store_shared(state, 1, data_of(state, one, 2));
  if (!one.guard && !crosses_lanes) {
    std::set<std::size_t> from;
    for (const Operand& operand : one.operands)
      for (unsigned half = 0; operand.reg && half < 2; ++half) from.insert(State::index(*operand.reg) + half);
    for (const Predicate& when : state.guards_of(from)) {
      guard_ = when;
      guarded.emplace_back(when, result(state, one, action, count));
    }
    guard_.reset();
  }
  write(state, one, results);
  const auto to = std::find_if(one.operands.begin(), one.operands.end(),
                               [](const Operand& o) { return o.kind == OperandKind::reg; });
  if (to == one.operands.end() || !to->reg) return;
  for (const auto& [when, cells] : guarded)
    for (std::size_t i = 0; i < cells.size(); ++i)
      state.add_guard(State::index(*to->reg) + i, when, defined(cells[i], State::index(*to->reg) + i));
}

// What the register holds from this instruction on.
Cell Machine::defined(Cell cell, std::size_t reg) const {
  constexpr std::size_t registers = 512;
  const bool once = phases_ && !phases_->repeats(block_);
  cell.definition = once ? static_cast<std::uint32_t>(at_ * registers + reg + 1) : 0;
  return cell;
}

// The first register operand, and those behind it.
void Machine::write(State& state, const Instruction& one, const std::vector<Cell>& results) {
  const auto to = std::find_if(one.operands.begin(), one.operands.end(),
                               [](const Operand& o) { return o.kind == OperandKind::reg; });
  if (to == one.operands.end() || !to->reg) return;
  const std::size_t first = State::index(*to->reg);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if ((first + i) / 256 != first / 256) break;
    state.set(values_, first + i, defined(results[i], first + i), one.guard);
  }
}

// Predicates that are results stand first, or right behind a register that is one. Taking one too many for a
// result only forgets what is known of it.
void Machine::forget_predicates(State& state, const Instruction& one) {
  bool register_seen = false;
  for (const Operand& operand : one.operands) {
    if (operand.kind == OperandKind::predicate) {
      if (operand.predicate) state.forget(*operand.predicate);
    } else if (operand.kind == OperandKind::predicate_set) {
      if (!register_seen) state.forget_predicates(operand.predicate->uniform);
    } else if (operand.kind == OperandKind::reg && !register_seen) {
      register_seen = true;
    } else {
      break;
    }
  }
}

std::vector<Cell> Machine::result(State& state, const Instruction& one, Action action, unsigned count) {
  const auto from = sources(one);
  std::vector<Cell> made;
  const auto each_half = [&](auto&& of) {
    for (unsigned half = 0; half < count; ++half) made.push_back(of(half));
  };
  switch (action) {
    case Action::move:
      if (from.empty()) return std::vector<Cell>(count, {values_.unknown(), 0});
      each_half([&](unsigned half) { return source(state, one, *from[0], half); });
      break;
    case Action::select:
      each_half([&](unsigned half) { return select(state, one, from, half); });
      break;
    case Action::add:
      each_half([&](unsigned half) { return add(state, one, from, half); });
      break;
    case Action::multiply_add:
      made = multiply_add(state, one, from);
      break;
    case Action::shift_add:
      made = std::vector<Cell>(count, count > 1 ? derived(state, one, from) : shift_add(state, one, from));
      break;
    case Action::shift:
      made = std::vector<Cell>(count, count > 1 ? derived(state, one, from) : shift(state, one, from));
      break;
    case Action::logic:
      made = std::vector<Cell>(count, count > 1 ? Cell{values_.unknown(), 0} : logic(state, one, from));
      break;
    case Action::permute:
      made = {permute(state, one, from)};
      break;
    case Action::shuffle:
      made = {from.empty() ? Cell{values_.unknown(), 0} : Cell{source(state, one, *from[0], 0).value, 0}};
      break;
    case Action::constant_load: {
      const auto bytes = static_cast<std::uint8_t>(element_bytes(one));
      if (from.size() != 1 || from[0]->kind != OperandKind::constant) break;
      each_half([&](unsigned half) {
        return constant(state, one, *from[0], 4 * half, bytes, one.has("S8") || one.has("S16"));
      });
      break;
    }
    case Action::special: {
      if (from.empty()) break;
      Cell cell = source(state, one, *from[0], 0);
      if (from[0]->text.find("SWIN") != std::string::npos) cell.value = values_.of({Origin::shared_window});
      if (from[0]->text.find("LWIN") != std::string::npos) cell.value = values_.of({Origin::local_window});
      if (from[0]->kind == OperandKind::other && from[0]->text == "SRZ") cell = known(0);
      made.assign(count, cell);
      break;
    }
    case Action::half: {
      made = {derived(state, one, from)};
      const bool plain = from.size() == 4 && !one.has("BF16_V2") && !one.has("BF16") &&
                         from[0]->kind == OperandKind::reg && !from[0]->reg &&
                         from[1]->kind == OperandKind::reg && !from[1]->reg;
      if (!plain) break;
      const auto upper = half_bits(*from[2]), lower = half_bits(*from[3]);
      if (upper && lower) made = {known(std::uint32_t{*upper} << 16 | *lower)};
      break;
    }
    default:
      made.assign(count, derived(state, one, from));
  }
  if (made.size() < count) made.assign(count, {values_.unknown(), 0});
  return made;
}

}  // namespace pooch::effects
