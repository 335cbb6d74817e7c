// Small integer expressions: what a register holds where it is no address. They say which word of a table a
// kernel takes, at which slot of its stack a value lies, and where a function returns to.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pooch::effects {

// A number of 32 bits. 0: nobody knows.
using SymbolId = std::uint32_t;

enum class SymbolKind : std::uint8_t {
  unknown,
  constant,  // `number`
  stack,     // where the stack was at the kernel's beginning, plus `number`
  window,    // where the parameters begin in the generic address space, plus `number`
  special,   // a special register, by `name`
  load,      // the word of `width` bytes at parameter byte `number`, plus `a`
  add,       // a + b
  multiply,  // a * b
  mask,      // a & number
};

struct Symbol {
  SymbolKind kind = SymbolKind::unknown;
  std::uint8_t width = 0;   // of a load: bytes
  bool is_signed = false;   // of a load
  std::int64_t number = 0;  // constants have 32 bits
  SymbolId a = 0, b = 0;
  std::string name;

  auto operator<=>(const Symbol&) const = default;
};

// Equal expressions have equal ids. What grows too large becomes unknown.
class Symbols {
 public:
  Symbols();

  const Symbol& operator[](SymbolId id) const { return all_[id]; }
  // The number of a constant, as it is or as the offset that it means.
  bool is_constant(SymbolId id, std::uint32_t number) const;
  static std::int64_t as_offset(std::int64_t bits) { return static_cast<std::int32_t>(bits); }

  SymbolId constant(std::uint64_t number);
  SymbolId stack(std::int64_t offset) { return intern({SymbolKind::stack, 0, false, offset}); }
  SymbolId window(std::int64_t offset) { return intern({SymbolKind::window, 0, false, offset}); }
  SymbolId special(std::string name);
  SymbolId load(std::int64_t offset, SymbolId index, std::uint8_t width, bool is_signed);
  SymbolId add(SymbolId a, SymbolId b);
  SymbolId multiply(SymbolId a, SymbolId b);
  SymbolId mask(SymbolId a, SymbolId bits);

  // As people write it: "c[CTAID.X + 0x690].u8 * 8".
  std::string text(SymbolId id) const;

 private:
  SymbolId intern(Symbol symbol);

  std::vector<Symbol> all_;
  std::vector<std::uint32_t> sizes_;
  std::map<Symbol, SymbolId> ids_;
};

}  // namespace pooch::effects
