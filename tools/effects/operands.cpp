// What an instruction's operands hold.
#include <fmt/core.h>

#include "tools/effects/machine.h"

namespace pooch::effects {
namespace {

// What the driver puts before the parameters, by architecture. The layouts are not documented; they were read
// from what nvcc makes of kernels that use them.
struct DriverArea {
  std::uint32_t first_architecture;
  std::int64_t stack;          // where a thread's stack begins
  std::int64_t window;         // the generic address of constant bank 0, or of the parameters; 8 bytes
  bool window_is_bank;         // the former
  std::int64_t local_window;   // 8 bytes; -1: not there
  std::int64_t shared_window;  // likewise
  std::int64_t block, grid;    // three sizes
};
constexpr DriverArea areas[] = {
    {100, 0x37c, 0x348, false, -1, -1, 0x360, 0x370},
    {90, 0x28, 0x198, false, 0x20, 0x18, 0x0, 0xc},
    {0, 0x28, 0x40, true, 0x20, 0x18, 0x0, 0xc},
};

const DriverArea& area_of(std::uint32_t architecture) {
  for (const DriverArea& one : areas)
    if (architecture >= one.first_architecture) return one;
  return areas[2];
}

bool within(std::int64_t offset, std::int64_t begin, std::int64_t bytes) {
  return begin >= 0 && offset >= begin && offset < begin + bytes;
}

std::string dimension(const char* name, std::int64_t offset) {
  return fmt::format("{}.{}", name, "XYZ"[static_cast<std::size_t>(offset / 4)]);
}

}  // namespace

std::vector<const Operand*> sources(const Instruction& one) {
  std::vector<const Operand*> from;
  bool result_seen = false;
  for (const Operand& operand : one.operands) {
    if (operand.kind == OperandKind::predicate || operand.kind == OperandKind::predicate_set) continue;
    if (operand.kind == OperandKind::memory || operand.kind == OperandKind::label) continue;
    if (!result_seen && operand.kind == OperandKind::reg) {
      result_seen = true;
      continue;
    }
    from.push_back(&operand);
  }
  return from;
}

const Operand* last_register(const Instruction& one) {
  const Operand* last = nullptr;
  for (const Operand& operand : one.operands)
    if (operand.kind == OperandKind::reg) last = &operand;
  return last;
}

const Operand* memory_operand(const Instruction& one, std::size_t which) {
  for (const Operand& operand : one.operands)
    if (operand.kind == OperandKind::memory && which-- == 0) return &operand;
  return nullptr;
}

Cell Machine::known(std::uint64_t number) {
  const auto bits = static_cast<std::uint32_t>(number);
  return {bits == 0 ? values_.zero() : values_.constant(), symbols_.constant(bits)};
}

Cell Machine::source(const State& state, const Instruction& one, const Operand& operand, unsigned half) {
  switch (operand.kind) {
    case OperandKind::reg: {
      if (half != 0 && operand.high_is_sign) return {values_.integer(), 0};
      if (!operand.reg) return operand.negated ? Cell{values_.constant(), 0} : known(0);
      const Cell& cell = state.get(State::index(*operand.reg) + half, guard_);
      return operand.negated ? Cell{values_.negate(cell.value), 0} : cell;
    }
    case OperandKind::immediate:
      return known(static_cast<std::uint64_t>(operand.number) >> (half != 0 ? 32 : 0));
    case OperandKind::floating:
      return {values_.constant(), 0};
    case OperandKind::predicate:
    case OperandKind::predicate_set:
      return {values_.integer(), 0};
    case OperandKind::constant: {
      const Cell cell = constant(state, one, operand, 4 * half, 4, false);
      return operand.negated ? Cell{values_.negate(cell.value), 0} : cell;
    }
    case OperandKind::bindless:
      return {values_.of({Origin::loaded}), 0};
    case OperandKind::symbol:
      return {values_.of({Origin::module}), 0};
    case OperandKind::special:
      return {values_.integer(), symbols_.special(operand.text.substr(3))};
    default:
      return {values_.unknown(), 0};
  }
}

Cell Machine::constant(const State& state, const Instruction& one, const Operand& operand, unsigned extra,
                       std::uint8_t width, bool is_signed) {
  std::int64_t offset = operand.number + extra;
  SymbolId index = 0;
  bool indexed = false;
  if (operand.reg) {
    index = state.get(State::index(*operand.reg), guard_).symbol;
    const Symbol at = symbols_[index];
    if (at.kind == SymbolKind::constant) {
      offset += Symbols::as_offset(at.number);
    } else {
      indexed = true;
      if (at.kind == SymbolKind::add && symbols_[at.b].kind == SymbolKind::constant) {
        offset += Symbols::as_offset(symbols_[at.b].number);
        index = at.a;
      }
    }
  }
  switch (operand.bank) {
    case 0:
      if (indexed) {
        const std::int64_t from = offset - kernel_.param_base;
        if (from < 0 && counts_down_from_cluster(index)) return {values_.of({Origin::driver}), 0};
        accesses_.read_indexed(from);
        if (index == 0) accesses_.read_all_constants();
        return {values_.of({Origin::table, false, from, index}),
                symbols_.load(from, index, width, is_signed)};
      }
      if (offset < kernel_.param_base) return driver_constant(offset);
      return parameter(offset - kernel_.param_base, 0, width, is_signed);
    case 1:
    case 2:
      return {values_.constant(), 0};  // of the code
    case 4:
      return {values_.of({Origin::module, false, indexed ? -1 : offset}), 0};
    default:
      return {values_.of({Origin::constant_bank}), 0};
  }
}

// Before the parameters the driver keeps something for each size of cluster.
bool Machine::counts_down_from_cluster(SymbolId index) const {
  const Symbol& product = symbols_[index];
  return product.kind == SymbolKind::multiply && symbols_[product.a].kind == SymbolKind::special &&
         symbols_[product.a].name == "CgaSize" && symbols_[product.b].kind == SymbolKind::constant &&
         Symbols::as_offset(symbols_[product.b].number) < 0;
}

Cell Machine::parameter(std::int64_t offset, SymbolId index, std::uint8_t width, bool is_signed) {
  accesses_.read_constant(offset, width);
  return {values_.of({Origin::word, false, offset}), symbols_.load(offset, index, width, is_signed)};
}

Cell Machine::driver_constant(std::int64_t offset) {
  const DriverArea& area = area_of(kernel_.architecture);
  if (offset == area.stack) return {values_.integer(), symbols_.stack(0)};
  if (within(offset, area.window, 8)) {
    const std::int64_t begin = area.window_is_bank ? -std::int64_t{kernel_.param_base} : 0;
    return {values_.of({Origin::window}), offset == area.window ? symbols_.window(begin) : 0};
  }
  // The windows' lower halves are 0.
  if (within(offset, area.local_window, 8)) return {values_.of({Origin::local_window}), symbols_.constant(0)};
  if (within(offset, area.shared_window, 8)) return {values_.of({Origin::shared_window}), 0};
  if (within(offset, area.block, 12))
    return {values_.integer(), symbols_.special(dimension("NTID", offset - area.block))};
  if (within(offset, area.grid, 12))
    return {values_.integer(), symbols_.special(dimension("NCTAID", offset - area.grid))};
  return {values_.of({Origin::driver, false, offset}), 0};
}

Address Machine::address(const State& state, const Instruction& one, const Operand& memory, bool global) {
  Address at{values_.zero(), values_.zero(), symbols_.constant(static_cast<std::uint64_t>(memory.number))};
  if (memory.number != 0) at.low = values_.constant();
  const bool wide = one.has("E") || !(one.name.starts_with("LD") || one.name.starts_with("ST") ||
                                      one.name.starts_with("ATOM") || one.name.starts_with("RED"));
  for (const MemoryPart& part : memory.parts) {
    const std::size_t reg = State::index(part.reg);
    const Cell low = state.get(reg, guard_);
    at.symbol = part.scaled ? 0 : symbols_.add(at.symbol, low.symbol);
    at.low = values_.add(at.low, part.scaled ? values_.derive(low.value) : low.value);
    if (!global) continue;
    if (part.pair || part.reg.uniform || (wide && !memory.high_is_sign)) {
      at.high = values_.add(at.high, state.get(reg + 1, guard_).value);
    } else if (memory.high_is_sign) {
      at.high = values_.add(at.high, values_.derive(low.value));
    } else {
      at.high = values_.unknown();
    }
  }
  return at;
}

}  // namespace pooch::effects
