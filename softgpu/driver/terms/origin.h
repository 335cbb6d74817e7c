// Where bytes come from, for a device that computes nothing (timing mode). A token stands for the result of
// one operation: the hash of what it did and of the tokens that it read. Two bytes of equal origin have equal
// content on a device that computes; where origins differ, content may.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "softgpu/hash.h"

namespace softgpu {

using Token = std::uint64_t;

// All places of such a token hold the same, as a set leaves them.
inline bool alike(Token token) {
  return (token & 1) != 0;
}
inline constexpr Token nobody = 1;  // wrote it
inline Token token_of(const Hash& hash) {
  return hash.value() & ~Token{1};
}
inline Token token_of_alike(const Hash& hash) {
  return hash.value() | 1;
}

struct Origin {
  Token token = nobody;
  std::uint64_t place = 0;  // of the byte among those of the token; 0 where all are alike

  // Of the byte so many behind.
  Origin at(std::uint64_t offset) const { return alike(token) ? *this : Origin{token, place + offset}; }
  friend bool operator==(const Origin&, const Origin&) = default;
};

// The hash of a run of bytes by their origins, however the run is cut.
class OriginHash {
 public:
  void add(std::uint64_t bytes, const Origin& origin) {
    if (bytes_ > 0 && origin_.at(bytes_) == origin) {
      bytes_ += bytes;
      return;
    }
    flush();
    origin_ = origin;
    bytes_ = bytes;
  }
  std::uint64_t value() {
    flush();
    return hash_.value();
  }

 private:
  void flush() {
    if (bytes_ > 0) hash_.add(bytes_).add(origin_.token).add(origin_.place);
    bytes_ = 0;
  }
  Hash hash_;
  Origin origin_;
  std::uint64_t bytes_ = 0;
};

// A value for each byte of an address space, kept as runs that go on: `value.at(n)` is that of the byte n
// behind. Bytes that were never set have `Value{}`.
template <class Value>
class RunMap {
 public:
  void set(std::uint64_t begin, std::uint64_t end, const Value& value) {
    if (begin >= end) return;
    auto at = cut(begin);
    // What is written as it was written before keeps its run.
    const bool whole = at != runs_.end() && at->first == begin && at->second.end == end;
    const auto after = whole ? std::next(at) : cut(end);
    if (!whole) at = runs_.lower_bound(begin);
    if (at != after && at->first == begin) {
      at->second = {end, value};
      runs_.erase(std::next(at), after);
    } else {
      runs_.erase(at, after);
      at = runs_.emplace_hint(after, begin, Run{end, value});
    }
    join(std::next(at));
    join(at);
  }
  void forget(std::uint64_t begin, std::uint64_t end) {
    const auto after = cut(end);
    runs_.erase(cut(begin), after);
  }
  // Calls visit(begin, end, value of the byte at begin) for all parts of the range, in order.
  template <class Visit>
  void visit(std::uint64_t begin, std::uint64_t end, Visit visit) const {
    auto run = runs_.upper_bound(begin);
    if (run != runs_.begin() && std::prev(run)->second.end > begin) --run;
    for (std::uint64_t at = begin; at < end;) {
      const bool gap = run == runs_.end() || run->first > at;
      std::uint64_t stop = end;
      if (gap && run != runs_.end() && run->first < end) stop = run->first;
      if (!gap && run->second.end < end) stop = run->second.end;
      visit(at, stop, gap ? Value{} : run->second.value.at(at - run->first));
      if (!gap) ++run;
      at = stop;
    }
  }
  std::size_t runs() const { return runs_.size(); }

 private:
  struct Run {
    std::uint64_t end;
    Value value;  // of the first byte
  };
  using Runs = std::map<std::uint64_t, Run>;

  // The run that begins at `at`, or the first behind it; a run across `at` becomes two.
  typename Runs::iterator cut(std::uint64_t at) {
    auto next = runs_.lower_bound(at);
    if (next == runs_.begin() || (next != runs_.end() && next->first == at)) return next;
    const auto across = std::prev(next);
    if (across->second.end <= at) return next;
    const Run tail{across->second.end, across->second.value.at(at - across->first)};
    across->second.end = at;
    return runs_.emplace_hint(next, at, tail);
  }
  void join(typename Runs::iterator at) {
    if (at == runs_.end() || at == runs_.begin()) return;
    const auto before = std::prev(at);
    if (before->second.end != at->first ||
        !(before->second.value.at(at->first - before->first) == at->second.value))
      return;
    before->second.end = at->second.end;
    runs_.erase(at);
  }

  Runs runs_;
};

}  // namespace softgpu
