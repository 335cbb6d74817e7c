#include "tools/effects/symbol.h"

#include <fmt/core.h>

#include <utility>

namespace pooch::effects {

namespace {
constexpr std::uint32_t largest = 12;  // parts of an expression
}

Symbols::Symbols() {
  all_.emplace_back();
  sizes_.push_back(1);
}

SymbolId Symbols::intern(Symbol symbol) {
  const std::uint32_t size =
      1 + (symbol.a != 0 ? sizes_[symbol.a] : 0) + (symbol.b != 0 ? sizes_[symbol.b] : 0);
  if (size > largest) return 0;
  const auto [found, is_new] = ids_.emplace(symbol, static_cast<SymbolId>(all_.size()));
  if (is_new) {
    all_.push_back(std::move(symbol));
    sizes_.push_back(size);
  }
  return found->second;
}

bool Symbols::is_constant(SymbolId id, std::uint32_t number) const {
  return all_[id].kind == SymbolKind::constant && all_[id].number == number;
}

SymbolId Symbols::constant(std::uint64_t number) {
  return intern({SymbolKind::constant, 0, false, static_cast<std::uint32_t>(number)});
}

SymbolId Symbols::special(std::string name) {
  return intern({SymbolKind::special, 0, false, 0, 0, 0, std::move(name)});
}

SymbolId Symbols::load(std::int64_t offset, SymbolId index, std::uint8_t width, bool is_signed) {
  return intern({SymbolKind::load, width, is_signed, offset, index});
}

SymbolId Symbols::add(SymbolId a, SymbolId b) {
  if (a == 0 || b == 0) return 0;
  if (all_[a].kind == SymbolKind::constant) std::swap(a, b);
  const Symbol left = all_[a], right = all_[b];
  if (right.kind != SymbolKind::constant) return intern({SymbolKind::add, 0, false, 0, a, b});
  if (right.number == 0) return a;
  const auto offset = as_offset(right.number);
  switch (left.kind) {
    case SymbolKind::constant:
      return constant(static_cast<std::uint64_t>(left.number + right.number));
    case SymbolKind::stack:
      return stack(left.number + offset);
    case SymbolKind::window:
      return window(left.number + offset);
    case SymbolKind::add:
      if (all_[left.b].kind == SymbolKind::constant)
        return add(left.a, constant(static_cast<std::uint64_t>(all_[left.b].number + right.number)));
      [[fallthrough]];
    default:
      return intern({SymbolKind::add, 0, false, 0, a, b});
  }
}

SymbolId Symbols::multiply(SymbolId a, SymbolId b) {
  if (a == 0 || b == 0) return 0;
  if (all_[a].kind == SymbolKind::constant) std::swap(a, b);
  const Symbol left = all_[a], right = all_[b];
  if (right.kind != SymbolKind::constant) return intern({SymbolKind::multiply, 0, false, 0, a, b});
  if (right.number == 1) return a;
  if (right.number == 0) return b;
  if (left.kind == SymbolKind::constant)
    return constant(static_cast<std::uint64_t>(left.number * right.number));
  if (left.kind == SymbolKind::add && all_[left.b].kind == SymbolKind::constant)
    return add(multiply(left.a, b), multiply(left.b, b));
  if (left.kind == SymbolKind::multiply && all_[left.b].kind == SymbolKind::constant)
    return multiply(left.a, constant(static_cast<std::uint64_t>(all_[left.b].number * right.number)));
  return intern({SymbolKind::multiply, 0, false, 0, a, b});
}

SymbolId Symbols::mask(SymbolId a, SymbolId bits) {
  if (a == 0 || all_[bits].kind != SymbolKind::constant) return 0;
  const Symbol left = all_[a];
  const auto number = all_[bits].number;
  if (left.kind == SymbolKind::constant) return constant(static_cast<std::uint64_t>(left.number & number));
  // What was loaded from fewer bits has no others.
  if (left.kind == SymbolKind::load && !left.is_signed && left.width < 4) {
    const std::int64_t all = (std::int64_t{1} << (8 * left.width)) - 1;
    if ((number & all) == all) return a;
  }
  return intern({SymbolKind::mask, 0, false, number, a});
}

std::string Symbols::text(SymbolId id) const {
  const Symbol& symbol = all_[id];
  switch (symbol.kind) {
    case SymbolKind::unknown:
      break;
    case SymbolKind::constant:
      return fmt::format("{:#x}", symbol.number);
    case SymbolKind::stack:
      return fmt::format("(stack + {})", symbol.number);
    case SymbolKind::window:
      return fmt::format("(window + {})", symbol.number);
    case SymbolKind::special:
      return symbol.name;
    case SymbolKind::load: {
      const std::string at = symbol.a != 0 ? fmt::format("{} + {}", text(symbol.a), symbol.number)
                                           : fmt::format("{}", symbol.number);
      return fmt::format("p[{}].{}{}", at, symbol.is_signed ? 's' : 'u', 8 * symbol.width);
    }
    case SymbolKind::add:
      return fmt::format("({} + {})", text(symbol.a), text(symbol.b));
    case SymbolKind::multiply:
      return fmt::format("({} * {})", text(symbol.a), text(symbol.b));
    case SymbolKind::mask:
      return fmt::format("({} & {:#x})", text(symbol.a), symbol.number);
  }
  return "?";
}

}  // namespace pooch::effects
