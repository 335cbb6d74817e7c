// Operands of instructions.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "tools/effects/sass.h"

namespace pooch::effects {
namespace {

constexpr std::size_t none = std::string_view::npos;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

template <class T>
bool take_number(std::string_view& text, T& number, int base = 10) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc() || end == text.data()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

// "0x10", "-0x10" or "16", whole.
std::optional<std::int64_t> whole_number(std::string_view text) {
  const bool negative = take(text, "-");
  const bool hex = take(text, "0x");
  std::uint64_t number = 0;
  if (!take_number(text, number, hex ? 16 : 10) || !text.empty()) return std::nullopt;
  return static_cast<std::int64_t>(negative ? 0 - number : number);
}

struct RegisterText {
  std::optional<Register> reg;
  std::string_view suffix;  // ".64", ".reuse", …
};

// "R12.64", "URZ"; nothing where it is none.
std::optional<RegisterText> read_register(std::string_view text) {
  // The return address's own register, which newer code also keeps others in; it gets a number that none has.
  constexpr std::uint16_t return_register = 250;
  if (text == "Rpc.LO") return RegisterText{Register{true, return_register}, {}};
  if (text == "Rpc.HI") return RegisterText{Register{true, return_register + 1}, {}};
  const bool uniform = take(text, "U");
  if (!take(text, "R")) return std::nullopt;
  RegisterText found;
  if (!take(text, "Z")) {
    Register reg{uniform, 0};
    if (!take_number(text, reg.number) || reg.number > 255 || (uniform && reg.number >= return_register))
      return std::nullopt;
    if (uniform || reg.number != 255) found.reg = reg;
  }
  if (!text.empty() && text.front() != '.') return std::nullopt;
  found.suffix = text;
  return found;
}

bool has_suffix(std::string_view suffixes, std::string_view wanted) {
  for (std::size_t at = suffixes.find(wanted); at != none; at = suffixes.find(wanted, at + 1)) {
    const std::size_t end = at + wanted.size();
    if (end == suffixes.size() || suffixes[end] == '.') return true;
  }
  return false;
}

std::optional<Operand> read_predicate(std::string_view text) {
  Operand made;
  made.kind = OperandKind::predicate;
  made.negated = take(text, "!");
  const bool uniform = take(text, "U");
  if (!take(text, "P")) return std::nullopt;
  if (text == "T") return made;
  if (text == "R") {
    made.kind = OperandKind::predicate_set;
    made.predicate = Predicate{uniform, false, 0};
    return made;
  }
  Predicate found{uniform, made.negated, 0};
  if (!take_number(text, found.number) || found.number > 7 || !text.empty()) return std::nullopt;
  made.predicate = found;
  return made;
}

// The parts of "R2.64+UR4+-0x10".
std::vector<std::string_view> summands(std::string_view text) {
  std::vector<std::string_view> parts;
  while (!text.empty()) {
    const std::size_t end = text.find('+');
    parts.push_back(trimmed(text.substr(0, end)));
    if (end == none) break;
    text.remove_prefix(end + 1);
  }
  return parts;
}

std::optional<Operand> read_constant(std::string_view text) {
  Operand made;
  made.kind = OperandKind::constant;
  if (take(text, "cx[")) made.kind = OperandKind::bindless;
  if (made.kind == OperandKind::constant && !take(text, "c[")) return std::nullopt;
  const std::size_t end = text.find(']');
  if (end == none) return std::nullopt;
  if (const auto bank = whole_number(text.substr(0, end))) {
    made.bank = static_cast<std::uint32_t>(*bank);
  } else {
    made.kind = OperandKind::bindless;
  }
  text = trimmed(text.substr(end + 1));
  const std::size_t close = text.find(']');
  if (!take(text, "[") || close == none) return std::nullopt;
  made.high_is_sign = false;
  for (const std::string_view part : summands(text.substr(0, close - 1))) {
    if (const auto number = whole_number(part)) {
      made.number += *number;
    } else if (const auto reg = read_register(part)) {
      if (reg->reg && made.reg) return std::nullopt;
      if (reg->reg) made.reg = reg->reg;
    } else {
      return std::nullopt;
    }
  }
  return made;
}

// The last pair of brackets: what stands before it are descriptors of the driver's.
std::optional<Operand> read_memory(std::string_view text) {
  const std::size_t open = text.rfind('['), close = text.rfind(']');
  if (open == none || close == none || close < open) return std::nullopt;
  Operand made;
  made.kind = OperandKind::memory;
  made.text = text.substr(0, open);
  for (const std::string_view part : summands(text.substr(open + 1, close - open - 1))) {
    if (const auto number = whole_number(part)) {
      made.number += *number;
    } else if (const auto reg = read_register(part)) {
      if (!reg->reg) continue;
      const std::string_view suffix = reg->suffix;
      made.parts.push_back({*reg->reg, has_suffix(suffix, ".64"), suffix.find(".X") != none});
      if (has_suffix(suffix, ".U32") || has_suffix(suffix, ".S32")) made.high_is_sign = true;
    } else {
      return std::nullopt;
    }
  }
  return made;
}

Operand named(OperandKind kind, std::string_view text) {
  Operand made;
  made.kind = kind;
  made.text = text;
  return made;
}

std::optional<Operand> read_named(std::string_view text) {
  if (text.starts_with("SR_")) return named(OperandKind::special, text);
  if (text.size() >= 2 && text.front() == 'B' &&
      std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; }))
    return named(OperandKind::barrier, text);
  if (const std::size_t open = text.find("`("); open != none && text.back() == ')')
    return named(OperandKind::label, text.substr(open + 2, text.size() - open - 3));
  if (text.find('@') != none && text.find('(') != none) return named(OperandKind::symbol, text);
  return std::nullopt;
}

bool is_floating(const std::string& text) {
  if (text.find("INF") != none || text.find("NAN") != none) return true;
  char* end = nullptr;
  (void)std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == '\0';
}

}  // namespace

Operand read_operand(std::string_view text) {
  text = trimmed(text);
  const std::string_view whole = text;
  if (auto found = read_predicate(text)) return *found;
  if (auto found = read_named(text)) return *found;
  if (const auto number = whole_number(text)) {
    Operand made;
    made.kind = OperandKind::immediate;
    made.number = *number;
    return made;
  }
  bool negated = false;
  while (!text.empty() &&
         (text.front() == '-' || text.front() == '~' || text.front() == '|' || text.front() == '+')) {
    negated = negated != (text.front() == '-' || text.front() == '~');
    text.remove_prefix(1);
  }
  const std::string_view plain = text.substr(0, text.find('|'));
  if (const auto reg = read_register(plain)) {
    Operand made;
    made.kind = OperandKind::reg;
    made.negated = negated;
    made.reg = reg->reg;
    made.high_is_sign = has_suffix(reg->suffix, ".U32") || has_suffix(reg->suffix, ".S32");
    return made;
  }
  if (auto found = read_constant(plain)) {
    found->negated = negated;
    return *found;
  }
  if (text.find('[') != none)
    if (auto found = read_memory(text)) return *found;
  return named(is_floating(std::string(text)) ? OperandKind::floating : OperandKind::other, whole);
}

}  // namespace pooch::effects
