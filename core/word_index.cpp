#include "core/word_index.h"

#include <charconv>
#include <utility>

namespace pooch {

// Recursive descent over what Symbols::text writes (tools/effects/symbol.cpp).
class WordIndex::Parser {
 public:
  Parser(std::string_view text, WordIndex& into) : rest_(text), into_(into) {}

  bool whole() { return expression(0) >= 0 && rest_.empty(); }

 private:
  static constexpr int deepest = 16;  // analyses make no deeper ones

  int add(Node node) {
    into_.nodes_.push_back(node);
    return static_cast<int>(into_.nodes_.size()) - 1;
  }
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  std::optional<std::int64_t> number(int base) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, base);
    if (error != std::errc()) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  int expression(int depth) {
    if (depth > deepest) return -1;
    if (take("0x")) {
      const auto value = number(16);
      return value ? add({Kind::constant, 0, 0, false, *value}) : -1;
    }
    if (take("p[")) return load(depth);
    if (take("(")) return both(depth);
    return special();
  }

  // "X + 2048].u8", or "2048].u8".
  int load(int depth) {
    Node node{Kind::load};
    const bool plain = !rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9' && !rest_.starts_with("0x");
    if (!plain) {
      node.a = expression(depth + 1);
      if (node.a < 0 || !take(" + ")) return -1;
    }
    const auto offset = number(10);
    if (!offset || !take("].")) return -1;
    node.number = *offset;
    node.is_signed = take("s");
    if (!node.is_signed && !take("u")) return -1;
    const auto bits = number(10);
    if (!bits || (*bits != 8 && *bits != 16 && *bits != 32)) return -1;
    node.bytes = static_cast<std::uint8_t>(*bits / 8);
    return add(node);
  }

  int both(int depth) {
    Node node;
    node.a = expression(depth + 1);
    if (node.a < 0) return -1;
    if (take(" & 0x")) {
      const auto bits = number(16);
      if (!bits || !take(")")) return -1;
      node.kind = Kind::mask, node.number = *bits;
      return add(node);
    }
    if (take(" + "))
      node.kind = Kind::add;
    else if (take(" * "))
      node.kind = Kind::multiply;
    else
      return -1;
    node.b = expression(depth + 1);
    return node.b < 0 || !take(")") ? -1 : add(node);
  }

  int special() {
    static constexpr std::pair<std::string_view, Kind> names[] = {
        {"NCTAID.", Kind::blocks}, {"NTID.", Kind::threads}, {"CTAID.", Kind::block}};
    for (const auto& [name, kind] : names) {
      if (!take(name)) continue;
      for (std::uint8_t axis = 0; axis < 3; ++axis) {
        if (!take(std::string_view("XYZ").substr(axis, 1))) continue;
        if (kind == Kind::block) into_.axes_[axis] = true;
        return add({kind, axis});
      }
    }
    return -1;
  }

  std::string_view rest_;
  WordIndex& into_;
};

std::optional<WordIndex> WordIndex::parse(std::string_view text) {
  WordIndex index;
  if (!Parser(text, index).whole()) return std::nullopt;
  return index;
}

std::int64_t WordIndex::at(const std::uint32_t (&block)[3], const LaunchGrid& grid, Read read) const {
  return static_cast<std::int32_t>(value(static_cast<int>(nodes_.size()) - 1, block, grid, read));
}

// Registers have 32 bits, and what is added up in them wraps around.
std::uint32_t WordIndex::value(int node, const std::uint32_t (&block)[3], const LaunchGrid& grid,
                               const Read& read) const {
  const Node& one = nodes_[static_cast<std::size_t>(node)];
  const auto of = [&](int operand) { return value(operand, block, grid, read); };
  switch (one.kind) {
    case Kind::constant:
      return static_cast<std::uint32_t>(one.number);
    case Kind::block:
      return block[one.axis];
    case Kind::blocks:
      return grid.blocks[one.axis];
    case Kind::threads:
      return grid.threads[one.axis];
    case Kind::load: {
      const std::int64_t index = one.a < 0 ? 0 : static_cast<std::int32_t>(of(one.a));
      const auto bits = static_cast<std::uint32_t>(read(one.number + index, one.bytes));
      if (!one.is_signed || one.bytes == 4) return bits;
      return one.bytes == 1 ? static_cast<std::uint32_t>(static_cast<std::int8_t>(bits))
                            : static_cast<std::uint32_t>(static_cast<std::int16_t>(bits));
    }
    case Kind::add:
      return of(one.a) + of(one.b);
    case Kind::multiply:
      return of(one.a) * of(one.b);
    case Kind::mask:
      return of(one.a) & static_cast<std::uint32_t>(one.number);
  }
  return 0;
}

}  // namespace pooch
