#include "interpose/kernels/mangled_name.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace pooch::interpose {
namespace {

constexpr std::size_t longest_name = 8 << 10, longest_text = 64 << 10;
constexpr int deepest = 64;

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

// One pass over the name, with the rules that the letters stand for. Every rule gives the length of its text,
// 0 where something is wrong; that ends everything. Nothing has an empty text here: what has is counted as 1.
class MangledName {
 public:
  explicit MangledName(std::string_view text) : rest_(text) {}

  bool sound() {
    if (rest_.size() > longest_name || !take("_Z") || encoding() == 0) return false;
    return rest_.empty() || rest_.front() == '.';  // a clone's suffix
  }

 private:
  // A nested rule: fails where there are too many of them.
  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_deep() const { return depth_ > deepest; }

   private:
    int& depth_;
  };
  // Of a function: what its template parameters stand for.
  struct Scope {
    bool in_name = true;       // before that is known
    std::size_t argument = 0;  // the longest; 0: it is no template
  };

  char peek(std::size_t i = 0) const { return i < rest_.size() ? rest_[i] : '\0'; }
  bool take(std::string_view word) {
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  static std::size_t plus(std::size_t a, std::size_t b) {
    return a == 0 || b == 0 || a + b > longest_text ? 0 : a + b;
  }
  std::size_t substitutable(std::size_t text) {
    if (text != 0) parts_.push_back(text);
    return text;
  }

  std::size_t encoding();
  std::size_t name();
  std::size_t nested();
  std::size_t local();
  std::size_t component();
  std::size_t unqualified();
  std::size_t lambda();
  std::size_t source_name();
  std::size_t arguments();
  std::size_t argument();
  std::size_t literal();
  std::size_t type();
  std::size_t special_type();
  std::size_t types(std::string_view end);
  std::size_t part();
  std::size_t parameter();
  bool number();

  std::string_view rest_;
  std::vector<std::size_t> parts_;  // that can be referred to
  std::size_t unnamed_ = 0;         // lambdas: compilers differ in whether they are among these
  int in_lambda_ = 0, depth_ = 0;
  Scope scope_;
};

// Digits or capitals, up to '_'.
bool MangledName::number() {
  while (is_digit(peek()) || is_upper(peek())) rest_.remove_prefix(1);
  return take("_");
}

std::size_t MangledName::encoding() {
  const Level level(depth_);
  if (level.too_deep()) return 0;
  const Scope outer = scope_;
  scope_ = {};
  std::size_t text = name();
  scope_.in_name = false;
  while (text != 0 && peek() != '\0' && peek() != 'E' && peek() != '.') text = plus(text, type());
  scope_ = outer;
  return text;
}

std::size_t MangledName::name() {
  if (take("N")) return nested();
  if (take("Z")) return local();
  std::size_t text = 0;
  if (peek() == 'S' && peek(1) != 't') {
    text = part();
    if (peek() != 'I') return 0;
  } else {
    text = take("St") ? plus(5, unqualified()) : unqualified();
    if (text != 0 && peek() == 'I') substitutable(text);
  }
  if (text != 0 && peek() == 'I') {
    const std::size_t list = arguments();
    if (scope_.in_name) scope_.argument = std::max(scope_.argument, list);
    text = plus(text, list);
  }
  return text;
}

std::size_t MangledName::nested() {
  take("r"), take("V"), take("K");
  if (peek() == 'R' || peek() == 'O') rest_.remove_prefix(1);
  std::size_t text = 1;
  for (int i = 0; text != 0 && !take("E"); ++i) {
    if (i > deepest) return 0;
    const bool known = peek() == 'S' && peek(1) != 't';
    const bool list = peek() == 'I';
    const std::size_t next = list ? arguments() : component();
    if (list && scope_.in_name) scope_.argument = std::max(scope_.argument, next);
    text = plus(text, next);
    if (!known && peek() != 'E') substitutable(text);
  }
  return text;
}

std::size_t MangledName::component() {
  if (take("St")) return plus(5, unqualified());
  if (peek() == 'S') return part();
  if (peek() == 'T') return parameter();
  return unqualified();
}

std::size_t MangledName::local() {
  std::size_t text = encoding();
  if (!take("E")) return 0;
  if (take("s")) {
    text = plus(text, 14);
  } else {
    if (take("d") && !number()) return 0;
    const Level level(depth_);
    text = level.too_deep() ? 0 : plus(text, name());
  }
  if (take("_"))
    while (is_digit(peek()) || peek() == '_') rest_.remove_prefix(1);
  return text;
}

std::size_t MangledName::unqualified() {
  take("L");
  std::size_t text = 0;
  if (is_digit(peek())) {
    text = source_name();
  } else if (peek() == 'U') {
    text = lambda();
  } else if ((peek() == 'C' || peek() == 'D') && is_digit(peek(1))) {
    rest_.remove_prefix(2);
    text = 1000;  // its class's name
  } else if (is_lower(peek()) && is_lower(peek(1)) && !rest_.starts_with("cv")) {
    const bool literal = rest_.starts_with("li");
    rest_.remove_prefix(2);
    text = literal ? plus(10, source_name()) : 12;  // operator new[]
  } else if (is_lower(peek()) && is_upper(peek(1))) {
    rest_.remove_prefix(2);  // aS: operator=
    text = 12;
  }
  while (text != 0 && take("B")) text = plus(text, source_name());
  return text;
}

std::size_t MangledName::lambda() {
  std::size_t text = 20;
  if (take("Ul")) {
    ++in_lambda_;
    text = plus(text, types("E"));
    --in_lambda_;
  } else if (!take("Ut")) {
    return 0;
  }
  if (!number()) return 0;
  ++unnamed_;
  return substitutable(text);
}

std::size_t MangledName::source_name() {
  std::size_t length = 0;
  while (is_digit(peek()) && length <= rest_.size()) {
    length = 10 * length + static_cast<std::size_t>(peek() - '0');
    rest_.remove_prefix(1);
  }
  if (length == 0 || length > rest_.size()) return 0;
  rest_.remove_prefix(length);
  return length + 24;  // (anonymous namespace)
}

std::size_t MangledName::arguments() {
  const Level level(depth_);
  if (level.too_deep() || !(take("I") || take("J"))) return 0;
  std::size_t text = 2;
  while (text != 0 && !take("E")) text = plus(text, argument());
  return text;
}

std::size_t MangledName::argument() {
  if (peek() == 'L') return literal();
  if (peek() == 'I' || peek() == 'J') return arguments();
  if (!take("X")) return type();
  // Of expressions, arguments of kernels are the addresses of functions and their own templates' numbers.
  const std::size_t text = peek() == 'T' ? parameter() : take("ad") ? literal() : 0;
  return take("E") ? plus(1, text) : 0;
}

std::size_t MangledName::literal() {
  if (!take("L")) return 0;
  if (take("_Z")) {
    const std::size_t text = encoding();
    return take("E") ? text : 0;
  }
  std::size_t text = type();
  while (text != 0 && (is_digit(peek()) || is_lower(peek()))) {
    rest_.remove_prefix(1);
    text = plus(text, 1);
  }
  return take("E") ? text : 0;
}

// `S_` or `S1A_`, or a name of the library's own.
std::size_t MangledName::part() {
  rest_.remove_prefix(1);
  constexpr std::string_view own = "abdios";
  if (own.find(peek()) != std::string_view::npos && peek() != '\0') {
    rest_.remove_prefix(1);
    return 80;
  }
  std::size_t index = 0;
  if (peek() != '_') {
    for (; is_digit(peek()) || is_upper(peek()); rest_.remove_prefix(1)) {
      index = 36 * index + static_cast<std::size_t>(is_digit(peek()) ? peek() - '0' : peek() - 'A' + 10);
      if (index > longest_name) return 0;
    }
    ++index;
  }
  if (!take("_") || parts_.empty() || index >= parts_.size() + unnamed_) return 0;
  // The longest of those that it may be.
  const std::size_t first = index - std::min(index, unnamed_),
                    last = std::min(index + unnamed_, parts_.size() - 1);
  std::size_t longest = 0;
  for (std::size_t i = std::min(first, last); i <= last; ++i) longest = std::max(longest, parts_[i]);
  return longest;
}

// `T_` or `T0_`. Within the name that says what it stands for it could stand for itself.
std::size_t MangledName::parameter() {
  rest_.remove_prefix(1);
  if (!number()) return 0;
  if (in_lambda_ > 0) return 8;  // auto
  return scope_.in_name ? 0 : scope_.argument;
}

std::size_t MangledName::types(std::string_view end) {
  std::size_t text = 2;
  while (text != 0 && !take(end)) text = plus(text, type());
  return text;
}

std::size_t MangledName::type() {
  const Level level(depth_);
  if (level.too_deep()) return 0;
  constexpr std::string_view builtin = "vwbcahstijlmxynofdegz", wrapping = "rVKOPRCG";
  const char first = peek();
  if (first == '\0') return 0;
  if (builtin.find(first) != std::string_view::npos) {
    rest_.remove_prefix(1);
    return 18;
  }
  if (wrapping.find(first) != std::string_view::npos) {
    rest_.remove_prefix(1);
    if (first == 'r') take("V");
    if (first == 'r' || first == 'V') take("K");  // together they make one type
    return substitutable(plus(30, type()));
  }
  if (first == 'S' && peek(1) != 't') {
    std::size_t text = part();
    if (text == 0 || peek() != 'I') return text;
    return substitutable(plus(text, arguments()));
  }
  if (first == 'T') {
    const std::size_t text = substitutable(parameter());
    return text != 0 && peek() == 'I' ? substitutable(plus(text, arguments())) : text;
  }
  if (is_digit(first) || first == 'N' || first == 'Z' || first == 'S' || (first == 'U' && is_lower(peek(1))))
    return substitutable(name());
  return special_type();
}

std::size_t MangledName::special_type() {
  if (take("F")) {
    take("Y");
    return substitutable(plus(4, types("E")));
  }
  if (take("A")) {
    while (is_digit(peek())) rest_.remove_prefix(1);
    return take("_") ? substitutable(plus(24, type())) : 0;
  }
  if (take("M")) {
    const std::size_t in = type();
    return substitutable(plus(in, type()));
  }
  if (take("u")) return substitutable(source_name());
  if (take("Dp")) {
    const std::size_t text = type();
    return substitutable(plus(3, text));
  }
  constexpr std::string_view others = "nacfdehsiu";  // decltype(nullptr), auto, …
  if (peek() == 'D' && peek(1) != '\0' && others.find(peek(1)) != std::string_view::npos) {
    rest_.remove_prefix(2);
    return 20;
  }
  if (take("DF")) return number() ? 12 : 0;
  return 0;
}

}  // namespace

bool can_be_demangled(std::string_view name) {
  return MangledName(name).sound();
}

}  // namespace pooch::interpose
