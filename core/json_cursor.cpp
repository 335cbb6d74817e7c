#include "core/json_cursor.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "core/utf8.h"

namespace pooch {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
// May follow a number or a word.
bool ends_token(char c) {
  return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
// Stands for itself in a string.
bool is_plain(char c) {
  return static_cast<signed char>(c) >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

// Shown in a message: cut, and without what is not printable ASCII.
std::string shown_key(std::string_view key) {
  constexpr std::size_t longest = 40;
  std::string shown(key.substr(0, longest));
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return !is_plain(c) && c != '"' && c != '\\'; }, '?');
  return key.size() > longest ? shown + "…" : shown;
}

// Of either of Unicode's two sets.
bool is_control(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0);
}

void put_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr unsigned char leads[] = {0, 0xC0, 0xE0, 0xF0};
  out += static_cast<char>(leads[more] | code >> 6 * more);
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80 | (code >> 6 * i & 0x3F));
}

}  // namespace

// ---- errors

void JsonCursor::fail(std::string message) {
  if (good()) error_ = std::move(message);
}

void JsonCursor::fail_syntax(std::string_view expected) {
  const auto line = 1 + std::count(begin_, at_, '\n');
  const char* start = at_;
  while (start > begin_ && start[-1] != '\n') --start;
  const std::string where = path_.empty() ? "" : path() + ": ";
  fail(fmt::format("{}line {}, column {}: {} is expected{}", where, line, at_ - start + 1, expected,
                   at_ == end_ ? ", but the text ends" : ""));
}

void JsonCursor::fail_field(std::string_view key, std::string_view what) {
  fail(fmt::format("{}/{} {}", path(), key, what));
}

void JsonCursor::fail_unknown(const std::vector<std::string_view>& known) {
  fail(fmt::format("{}/{} is no field; accepted: {}", path(), shown_key(key_), fmt::join(known, ", ")));
}

void JsonCursor::reject(std::string_view why) {
  fail(fmt::format("{} {}", path(), why));
}

void JsonCursor::refuse(std::string_view accepted) {
  fail(fmt::format("{} is {}: {}", path_.empty() ? "the text" : path(), excerpt(), accepted));
}

std::string JsonCursor::path() const {
  std::string text;
  for (const Step& step : path_)
    text += step.named ? fmt::format("/{}", shown_key(step.key)) : fmt::format("/{}", step.index);
  return text;
}

std::string JsonCursor::excerpt() const {
  if (value_ == end_) return "empty";
  if (*value_ == '{') return "an object";
  if (*value_ == '[') return "a list";
  constexpr std::ptrdiff_t longest = 40;
  const bool quoted = *value_ == '"';
  std::string shown;
  for (const char* at = value_; at < end_; ++at) {
    if (!quoted && ends_token(*at)) break;
    if (at - value_ == longest) return shown + (quoted ? "…\"" : "…");
    const bool quote = *at == '"';
    shown += is_plain(*at) || quote || *at == '\\' ? *at : '?';
    if (quoted && quote && at > value_) break;
  }
  return shown;
}

// ---- structure

void JsonCursor::skip_space() {
  while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) ++at_;
}

bool JsonCursor::open(char bracket, std::string_view accepted) {
  if (!good()) return false;
  skip_space();
  value_ = at_;
  if (at_ == end_ || *at_ != bracket) {
    refuse(accepted);
    return false;
  }
  ++at_;
  return true;
}

bool JsonCursor::more(char closing, bool first) {
  if (!good()) return false;
  skip_space();
  if (at_ < end_ && *at_ == closing) {
    ++at_;
    return false;
  }
  if (first) return true;  // whatever reads the element says what is wrong with it
  if (at_ < end_ && *at_ == ',') {
    ++at_;
    return true;
  }
  fail_syntax(closing == '}' ? "',' or '}'" : "',' or ']'");
  return false;
}

bool JsonCursor::read_key() {
  skip_space();
  if (at_ == end_ || *at_ != '"') {
    fail_syntax("a key in quotes");
    return false;
  }
  const char* const start = at_ + 1;
  if (!read_view(key_)) return false;
  raw_key_ = {start, static_cast<std::size_t>(at_ - 1 - start)};
  skip_space();
  if (at_ < end_ && *at_ == ':') {
    ++at_;
    return true;
  }
  fail_syntax("':'");
  return false;
}

bool JsonCursor::read_view(std::string_view& out) {
  const char* const start = at_ + 1;
  const char* stop = start;
  while (stop < end_ && is_plain(*stop)) ++stop;
  if (stop < end_ && *stop == '"') {
    out = {start, static_cast<std::size_t>(stop - start)};
    at_ = stop + 1;
    return true;
  }
  if (!read_string(scratch_)) return false;
  out = scratch_;
  return true;
}

void JsonCursor::finish() {
  if (!good()) return;
  skip_space();
  if (at_ != end_) fail_syntax("the end of the text");
}

// ---- values

// A number as from_chars reads it, from `least` to `most`; 0 where there is none.
template <class Number>
Number JsonCursor::read_whole(Number least, Number most) {
  if (!good()) return 0;
  skip_space();
  value_ = at_;
  Number number = 0;
  const auto [stop, problem] = std::from_chars(at_, end_, number);
  const char* const digits = at_ < end_ && *at_ == '-' ? at_ + 1 : at_;
  const bool zeros = digits < end_ && *digits == '0' && stop - at_ > 1;
  if (problem != std::errc{} || zeros || (stop < end_ && !ends_token(*stop)) || number < least ||
      number > most) {
    refuse(fmt::format("a whole number from {} to {}", least, most));
    return 0;
  }
  at_ = stop;
  return number;
}

std::uint64_t JsonCursor::whole(std::uint64_t most) {
  return read_whole<std::uint64_t>(0, most);
}

std::int64_t JsonCursor::integer(std::int64_t most) {
  return read_whole<std::int64_t>(-most, most);
}

// Where the number that starts here ends by JSON's grammar; nullptr: it is none.
const char* JsonCursor::number_end() const {
  const char* p = at_;
  const auto digits = [&] {
    const char* const start = p;
    while (p < end_ && is_digit(*p)) ++p;
    return p > start;
  };
  if (p < end_ && *p == '-') ++p;
  const char* const whole_part = p;
  if (!digits() || (*whole_part == '0' && p - whole_part > 1)) return nullptr;
  if (p < end_ && *p == '.') {
    ++p;
    if (!digits()) return nullptr;
  }
  if (p < end_ && (*p == 'e' || *p == 'E')) {
    ++p;
    if (p < end_ && (*p == '+' || *p == '-')) ++p;
    if (!digits()) return nullptr;
  }
  return p == end_ || ends_token(*p) ? p : nullptr;
}

double JsonCursor::real(double most) {
  if (!good()) return 0;
  skip_space();
  value_ = at_;
  double number = -1;
  const char* const stop = number_end();
  const bool read = stop != nullptr && std::from_chars(at_, stop, number).ec == std::errc{};
  if (!read || !(number >= 0 && number <= most)) {
    refuse(fmt::format("a number from 0 to {}", most));
    return 0;
  }
  at_ = stop;
  return number;
}

bool JsonCursor::boolean() {
  if (!good()) return false;
  skip_space();
  value_ = at_;
  const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
  for (const std::string_view word : {"true", "false"}) {
    if (!rest.starts_with(word) || (rest.size() > word.size() && !ends_token(rest[word.size()]))) continue;
    at_ += word.size();
    return word == "true";
  }
  refuse("true or false");
  return false;
}

void JsonCursor::text(std::string& out) {
  if (!good()) return;
  skip_space();
  value_ = at_;
  if (at_ == end_ || *at_ != '"') return refuse("a text in quotes");
  (void)read_string(out);  // has said what is wrong
}

std::string_view JsonCursor::word() {
  if (!good()) return {};
  skip_space();
  value_ = at_;
  std::string_view word;
  if (at_ == end_ || *at_ != '"') {
    refuse("a text in quotes");
  } else {
    (void)read_view(word);  // has said what is wrong
  }
  return word;
}

bool JsonCursor::read_string(std::string& out) {
  ++at_;  // the quote
  const char* start = at_;
  while (at_ < end_ && is_plain(*at_)) ++at_;
  out.assign(start, at_);
  while (at_ < end_ && *at_ != '"') {
    if (is_plain(*at_)) {
      out += *at_++;
    } else if (*at_ == '\\') {
      if (!read_escape(out)) return false;
    } else if (!read_utf8(out)) {
      return false;
    }
  }
  if (at_ == end_) {
    fail_syntax("the closing quote");
    return false;
  }
  ++at_;
  return true;
}

bool JsonCursor::read_escape(std::string& out) {
  ++at_;  // the backslash
  if (at_ < end_ && (*at_ == '"' || *at_ == '\\' || *at_ == '/')) {
    out += *at_++;
    return true;
  }
  if (at_ < end_ && *at_ == 'u') return read_unicode(out);
  fail_syntax("an escaped quote, slash, backslash or u (no control character)");
  return false;
}

bool JsonCursor::read_hex4(std::uint32_t& out) {
  if (end_ - at_ < 4) return false;
  const auto [stop, problem] = std::from_chars(at_, at_ + 4, out, 16);
  if (problem != std::errc{} || stop != at_ + 4) return false;
  at_ = stop;
  return true;
}

bool JsonCursor::read_unicode(std::string& out) {
  const char* const start = at_++;  // the u
  std::uint32_t code = 0;
  bool good_code = read_hex4(code);
  if (good_code && code >= 0xD800 && code < 0xDC00) {  // the first half of a pair
    std::uint32_t low = 0;
    good_code = end_ - at_ >= 2 && at_[0] == '\\' && at_[1] == 'u';
    if (good_code) at_ += 2;
    good_code = good_code && read_hex4(low) && low >= 0xDC00 && low < 0xE000;
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    good_code = false;
  }
  if (good_code && !is_control(code)) {
    put_utf8(out, code);
    return true;
  }
  at_ = start;
  fail_syntax("the code of a character that is no control character");
  return false;
}

bool JsonCursor::read_utf8(std::string& out) {
  const std::size_t bytes = utf8_character({at_, static_cast<std::size_t>(end_ - at_)});
  if (bytes == 0) {
    fail_syntax("UTF-8 text without control characters");
    return false;
  }
  out.append(at_, bytes);
  at_ += bytes;
  return true;
}

// ---- skipping

bool JsonCursor::null() {
  if (!good()) return false;
  skip_space();
  constexpr std::string_view word = "null";
  const std::string_view rest(at_, static_cast<std::size_t>(end_ - at_));
  if (!rest.starts_with(word) || (rest.size() > word.size() && !ends_token(rest[word.size()]))) return false;
  value_ = at_;
  at_ += word.size();
  return true;
}

bool JsonCursor::seek(std::string_view key) {
  if (!open('{', "an object")) return false;
  for (bool first = true; more('}', first); first = false) {
    if (!read_key()) return false;
    if (key_ == key) return true;
    skip_value(0);
  }
  return false;
}

void JsonCursor::skip_members(char closing, int depth) {
  ++at_;  // the bracket
  for (bool first = true; more(closing, first); first = false) {
    if (closing == '}' && !read_key()) return;
    skip_value(depth + 1);
  }
}

void JsonCursor::skip_value(int depth) {
  if (!good()) return;
  skip_space();
  value_ = at_;
  if (at_ == end_ || depth == deepest_skip) return fail_syntax("a value");
  if (*at_ == '{') return skip_members('}', depth);
  if (*at_ == '[') return skip_members(']', depth);
  if (*at_ == '"') {  // another version may know other characters
    for (++at_; at_ < end_ && *at_ != '"'; ++at_) at_ += *at_ == '\\' && end_ - at_ > 1 ? 1 : 0;
    if (at_ == end_) return fail_syntax("the closing quote");
    ++at_;
    return;
  }
  if (const char* const stop = number_end()) {
    at_ = stop;
    return;
  }
  const char* const stop = std::find_if(at_, end_, ends_token);
  const std::string_view word(at_, static_cast<std::size_t>(stop - at_));
  if (word != "true" && word != "false" && word != "null") return fail_syntax("a value");
  at_ = stop;
}

}  // namespace pooch
