#include "tools/effects/sass.h"

#include <algorithm>
#include <charconv>

namespace pooch::effects {
namespace {

constexpr std::size_t none = std::string_view::npos;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r";
  const std::size_t begin = text.find_first_not_of(blank);
  return begin == none ? std::string_view() : text.substr(begin, text.find_last_not_of(blank) - begin + 1);
}

// Scheduling notes of newer architectures ("&wr=0x0 ?trans1") and remarks ("(*"…"*)") are cut off.
std::string_view without_notes(std::string_view text) {
  for (const std::string_view note : {" &", " ?", "(*"}) text = text.substr(0, text.find(note));
  if (const std::size_t end = text.rfind(';'); end != none) text = text.substr(0, end);
  return trimmed(text);
}

// At commas that no bracket encloses.
std::vector<std::string_view> split_operands(std::string_view text) {
  std::vector<std::string_view> all;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '(' || c == '{') ++depth;
    if (c == ']' || c == ')' || c == '}') --depth;
    if (c != ',' || depth != 0) continue;
    all.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (!trimmed(text.substr(begin)).empty()) all.push_back(trimmed(text.substr(begin)));
  return all;
}

// "R2 `(.L_x_1)" and "R2 -0x30 …" are two operands without a comma.
void add_operands(std::string_view text, std::vector<Operand>& to) {
  const std::size_t space = text.find(' ');
  if (space != none && text.find('[') == none && text.find("32@") == none) {
    const std::string_view head = text.substr(0, space), rest = trimmed(text.substr(space + 1));
    const Operand first = read_operand(head);
    if (first.kind == OperandKind::reg || first.kind == OperandKind::predicate) {
      to.push_back(first);
      if (!rest.empty()) add_operands(rest, to);
      return;
    }
  }
  to.push_back(read_operand(text));
}

std::vector<std::string> labels_in(std::string_view text) {
  std::vector<std::string> all;
  for (std::size_t at = text.find(".L_"); at != none; at = text.find(".L_", at + 1)) {
    const std::size_t end = text.find_first_of(", \")", at);
    all.emplace_back(text.substr(at, end - at));
  }
  return all;
}

// "/*0210*/   LDG …": the number, and what follows.
std::optional<std::uint32_t> take_address(std::string_view& line) {
  if (!line.starts_with("/*")) return std::nullopt;
  const std::size_t end = line.find("*/");
  if (end == none) return std::nullopt;
  std::uint32_t address = 0;
  const char* const last = line.data() + end;
  const auto parsed = std::from_chars(line.data() + 2, last, address, 16);
  if (parsed.ec != std::errc() || parsed.ptr != last) return std::nullopt;
  line.remove_prefix(end + 2);
  return address;
}

class Reader {
 public:
  void line(std::string_view raw) {
    if (raw.starts_with("//---")) {
      constexpr std::string_view mark = " .text.";
      const std::size_t at = raw.find(mark);
      open_ = at != none;
      if (!open_) return;
      const std::string_view name = raw.substr(at + mark.size());
      all_.emplace_back().name = name.substr(0, name.find(' '));
      return;
    }
    if (!open_) return;
    std::string_view text = trimmed(raw);
    if (const auto address = take_address(text)) {
      Instruction one = read_instruction(text);
      one.address = *address;
      all_.back().instructions.push_back(std::move(one));
    } else if (text.size() > 1 && text.back() == ':' && text.find(' ') == none) {
      all_.back().labels.emplace(text.substr(0, text.size() - 1), all_.back().instructions.size());
    }
  }
  std::vector<Code> take() { return std::move(all_); }

 private:
  std::vector<Code> all_;
  bool open_ = false;
};

}  // namespace

bool Instruction::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

std::optional<std::size_t> Code::at(std::uint64_t address) const {
  const auto found =
      std::lower_bound(instructions.begin(), instructions.end(), address,
                       [](const Instruction& one, std::uint64_t wanted) { return one.address < wanted; });
  if (found == instructions.end() || found->address != address) return std::nullopt;
  return static_cast<std::size_t>(found - instructions.begin());
}

Instruction read_instruction(std::string_view text) {
  Instruction made;
  if (text.find("BRANCH_TARGETS") != none) made.targets = labels_in(text.substr(text.find("BRANCH_TARGETS")));
  text = without_notes(text);
  made.text = text;
  if (text.starts_with("{")) text = trimmed(text.substr(1));
  if (text.ends_with("}")) text = trimmed(text.substr(0, text.size() - 1));
  if (text.starts_with("@")) {
    const std::size_t end = text.find(' ');
    const Operand guard = read_operand(text.substr(1, end == none ? none : end - 1));
    made.guard = guard.predicate;
    made.never = guard.kind == OperandKind::predicate && !guard.predicate && guard.negated;
    if (guard.kind != OperandKind::predicate || end == none) return made;  // without a name: not understood
    text = trimmed(text.substr(end));
  }
  const std::size_t end = text.find(' ');
  std::string_view name = text.substr(0, end);
  std::vector<std::string> parts;
  for (std::size_t dot; (dot = name.find('.')) != none; name.remove_prefix(dot + 1))
    parts.emplace_back(name.substr(0, dot));
  parts.emplace_back(name);
  made.name = parts.front();
  made.modifiers.assign(parts.begin() + 1, parts.end());
  if (end != none)
    for (const std::string_view one : split_operands(text.substr(end))) add_operands(one, made.operands);
  return made;
}

std::vector<Code> read_disassembly(std::string_view text) {
  Reader reader;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    reader.line(text.substr(0, end));
    if (end == none) break;
    text.remove_prefix(end + 1);
  }
  return reader.take();
}

}  // namespace pooch::effects
