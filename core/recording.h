// A program's whole call stream as a file: enough to run tracker and planner again, without the program.
//
//   stream  = "poochrec" version:varint session record* [end]
//   session = device:text device_bytes cap_bytes host_budget_bytes policy:text
//   record  = 1 address bytes flags                                           an allocation
//           | 2 address                                                       a free
//           | 3 function:name mode:name kind flags stream traits:8 bytes      a call
//               [window] [filter:shape] count (address bytes effect shape)*
//   end     = 4
//   text    = length:varint bytes
//   name    = 0 text    a new one; it gets the next number, from 1
//           | number
//   shape   = rank [element_bytes size*]
//   window  = rank (size stride padding dilation)* groups
//
// Numbers without a note are varints (LEB128); tag, kind, effect, rank, element_bytes and flags are bytes. A
// stream may stop anywhere, as a killed program's does: everything before its last incomplete record counts.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/call.h"
#include "core/result.h"

namespace pooch {

inline constexpr std::string_view recording_magic = "poochrec";

// Where the stream was recorded.
struct RecordedSession {
  std::string device;
  std::uint64_t device_bytes = 0, cap_bytes = 0, host_budget_bytes = 0;
  std::string policy;
};

struct RecordedAllocation {
  Address address{};
  std::uint64_t bytes = 0;
  bool managed = false, by_program = false;
};

struct RecordedFree {
  Address address{};
};

// The reader owns what a Call points to: names live as long as the reader, the rest until its next record.
using Record = std::variant<RecordedAllocation, RecordedFree, Call>;

// Writes records into a buffer of fixed size, which goes to the sink whenever it is full.
class RecordingWriter {
 public:
  using Sink = std::function<Status(std::string_view)>;

  RecordingWriter(Sink sink, const RecordedSession& session);

  void add(const RecordedAllocation& allocation);
  void add(const RecordedFree& free);
  void add(const Call& call);
  // The stream is complete.
  void end();
  void flush();
  // The sink's error; after it the sink is given nothing.
  const std::optional<Error>& failure() const { return failure_; }

 private:
  static constexpr std::size_t capacity = 64 << 10;

  // Room for `bytes` more at the end of the buffer.
  void reserve(std::size_t bytes) {
    if (capacity - used_ < bytes) flush();
  }
  void put(std::uint8_t byte) { (*buffer_)[used_++] = static_cast<char>(byte); }
  void put_varint(std::uint64_t value);
  void put_bytes(std::string_view bytes);
  void put_text(std::string_view text);
  void put_name(std::string_view name);
  void put(const Shape& shape);
  void put(const Window& window);

  Sink sink_;
  std::optional<Error> failure_;
  std::unique_ptr<std::array<char, capacity>> buffer_;
  std::size_t used_ = 0;
  std::unordered_map<std::string_view, std::uint64_t> names_;  // static storage, as Call has it
};

class RecordingReader {
 public:
  // Fills the span from its beginning and returns how much; 0 at the end.
  using Source = std::function<Result<std::size_t>(std::span<char>)>;

  // Error: invalid_argument, "offset N: " and what is wrong there, or what the source says.
  static Result<RecordingReader> open(Source source);

  const RecordedSession& session() const { return session_; }
  // The next record; nothing at the end of the stream, and ever after. Errors as above.
  Result<std::optional<Record>> next();
  // The program ended by itself and nothing is missing. Known at the end.
  bool complete() const { return ended_; }
  std::uint64_t offset() const { return consumed_ + at_; }  // of the next record

 private:
  class Cursor;

  explicit RecordingReader(Source source) : source_(std::move(source)) {}
  template <class Parse>
  Result<bool> read_whole(Parse&& parse);
  Result<bool> refill();
  void parse_header(Cursor& in);
  void parse_record(Cursor& in);
  void parse_call(Cursor& in);
  void parse_access(Cursor& in);
  std::string_view parse_name(Cursor& in, const char* what);

  Source source_;
  bool exhausted_ = false, ended_ = false;
  std::vector<char> buffer_;
  std::size_t at_ = 0, filled_ = 0;  // of buffer_
  std::uint64_t consumed_ = 0;       // bytes of the stream before buffer_
  RecordedSession session_;
  std::deque<std::string> names_;
  Record record_;
  std::vector<Access> accesses_;
  Window window_;
  Shape filter_;
};

}  // namespace pooch
