// Reads JSON text into structs in one pass, without an intermediate document: a profile of 100,000 ops is 40
// MB of text, and nlohmann-json's SAX parser alone takes longer than reading may take in all.
//
// The first error is kept and ends the reading: every method then does nothing, so callers need not check
// after each value. An error names the value by its JSON pointer ("/phases/0/ops/17/us"), shows it and says
// what is accepted. The caller's types set the depth; the text cannot exhaust the stack.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace pooch {

class JsonCursor;

// One key of an object that is read into a T.
template <class T>
struct JsonField {
  std::string_view key;  // static storage
  bool required;
  void (*read)(JsonCursor& in, T& out);
  bool internal = false;  // only pooch writes it: no error names it as accepted
};

class JsonCursor {
 public:
  // `text` must outlive the cursor.
  explicit JsonCursor(std::string_view text)
      : begin_(text.data()), end_(begin_ + text.size()), at_(begin_), value_(begin_) {}

  bool good() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  // Every key must be one of `fields` and may appear once.
  template <class T, std::size_t n>
  void object(T& out, const JsonField<T> (&fields)[n]);
  // Calls `element()` for each element; it must read exactly one value.
  template <class Element>
  void array(Element&& element);
  // An object whose keys are data. Calls `member(key)` for each of them, with the key as the text has it; it
  // must read exactly one value, or reject the key.
  template <class Member>
  void members(Member&& member);
  // A whole number from 0 to `most`.
  std::uint64_t whole(std::uint64_t most);
  template <class Integer>
  void whole(Integer& out, std::uint64_t most) {
    out = static_cast<Integer>(whole(most));
  }
  // A whole number from -`most` to `most`.
  std::int64_t integer(std::int64_t most);
  // A number from 0 to `most`.
  double real(double most);
  bool boolean();
  // Valid UTF-8 without control characters.
  void text(std::string& out);
  // The same, valid until the next call.
  std::string_view word();

  // Whether the next value is null. If so, reads it.
  bool null();
  // Reads any value, of limited depth.
  void skip() { skip_value(0); }

  // Enters the object that is the next value and stops in front of the value of `key`. False: not there.
  bool seek(std::string_view key);
  // Nothing but white space may follow.
  void finish();

  // The value read last is not acceptable: "<path> is <value>: <accepted>".
  void refuse(std::string_view accepted);
  // What the path leads to is not acceptable, whatever its value: "<path> <why>".
  void reject(std::string_view why);

 private:
  struct Step {
    std::string_view key;  // empty, and no `named`: an element of an array
    std::size_t index;
    bool named = true;
  };
  static constexpr int deepest_skip = 64;

  void fail(std::string message);
  void fail_syntax(std::string_view expected);
  void fail_field(std::string_view key, std::string_view what);
  void fail_unknown(const std::vector<std::string_view>& known);
  std::string path() const;
  std::string excerpt() const;

  void skip_space();
  bool open(char bracket, std::string_view accepted);
  // After `open`, or after an element: whether there is one (more). Steps over the comma, or over the closing
  // bracket.
  bool more(char closing, bool first);
  // Reads a key and its colon into key_.
  bool read_key();
  // At a quote: a string, in the text or in scratch_ where it has escapes.
  bool read_view(std::string_view& out);
  bool read_string(std::string& out);
  bool read_escape(std::string& out);
  bool read_unicode(std::string& out);
  bool read_utf8(std::string& out);
  bool read_hex4(std::uint32_t& out);
  template <class Number>
  Number read_whole(Number least, Number most);
  const char* number_end() const;
  void skip_value(int depth);
  void skip_members(char closing, int depth);

  const char* begin_;
  const char* end_;
  const char* at_;
  const char* value_;         // where the value read last starts
  std::string_view key_;      // in the text, or in scratch_ where it has escapes
  std::string_view raw_key_;  // the same as it stands in the text
  std::string scratch_;
  std::vector<Step> path_;
  std::string error_;
};

template <class T, std::size_t n>
void JsonCursor::object(T& out, const JsonField<T> (&fields)[n]) {
  static_assert(n <= 32, "one bit each");
  if (!open('{', "an object")) return;
  const char* const start = value_;
  std::uint32_t seen = 0;
  std::size_t next = 0;  // keys mostly come in the order of `fields`
  for (bool first = true; more('}', first); first = false) {
    if (!read_key()) return;
    std::size_t tried = 0;
    for (; tried < n && fields[next].key != key_; ++tried) next = next + 1 == n ? 0 : next + 1;
    if (tried == n) {
      std::vector<std::string_view> known;
      for (const auto& field : fields)
        if (!field.internal) known.push_back(field.key);
      return fail_unknown(known);
    }
    const std::uint32_t bit = std::uint32_t{1} << next;
    if ((seen & bit) != 0) return fail_field(fields[next].key, "appears twice");
    seen |= bit;
    path_.push_back({fields[next].key, 0});
    fields[next].read(*this, out);
    if (!good()) return;
    path_.pop_back();
    next = next + 1 == n ? 0 : next + 1;
  }
  if (!good()) return;
  for (std::size_t i = 0; i < n; ++i) {
    if (fields[i].required && (seen >> i & 1) == 0) return fail_field(fields[i].key, "is missing");
  }
  value_ = start;
}

template <class Element>
void JsonCursor::array(Element&& element) {
  if (!open('[', "a list")) return;
  const char* const start = value_;
  path_.push_back({{}, 0, false});
  for (bool first = true; more(']', first); first = false) {
    element();
    if (!good()) return;
    ++path_.back().index;
  }
  if (!good()) return;
  path_.pop_back();
  value_ = start;
}

template <class Member>
void JsonCursor::members(Member&& member) {
  if (!open('{', "an object")) return;
  const char* const start = value_;
  for (bool first = true; more('}', first); first = false) {
    if (!read_key()) return;
    path_.push_back({raw_key_, 0});
    member(raw_key_);
    if (!good()) return;
    path_.pop_back();
  }
  if (good()) value_ = start;
}

}  // namespace pooch
