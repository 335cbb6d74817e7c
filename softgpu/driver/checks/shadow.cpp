#include "softgpu/driver/checks/shadow.h"

#include <iterator>
#include <utility>

namespace softgpu {

// The interval that starts at `at`, or the first after it; one that spans `at` is cut in two.
Shadow::Map::iterator Shadow::split(std::uint64_t at) {
  auto next = intervals_.lower_bound(at);
  if (next != intervals_.end() && next->first == at) return next;
  if (next == intervals_.begin()) return next;
  auto spanning = std::prev(next);
  if (spanning->second.end <= at) return next;
  Interval tail = spanning->second;
  spanning->second.end = at;
  return intervals_.emplace_hint(next, at, std::move(tail));
}

Shadow::Map::const_iterator Shadow::first_overlap(std::uint64_t begin) const {
  auto next = intervals_.upper_bound(begin);
  if (next != intervals_.begin() && std::prev(next)->second.end > begin) --next;
  return next;
}

Shadow::Map::iterator Shadow::merge_into_previous(Map::iterator at) {
  if (at == intervals_.begin() || at == intervals_.end()) return at;
  auto before = std::prev(at);
  if (before->second.end != at->first || !before->second.same_history(at->second)) return at;
  before->second.end = at->second.end;
  intervals_.erase(at);
  return before;
}

std::optional<Conflict> Shadow::note_write(std::uint64_t begin, std::uint64_t end, const Access& by,
                                           const VectorClock& clock, bool written) {
  std::optional<Conflict> conflict;
  if (begin >= end) return conflict;
  auto at = split(begin);
  const auto after = split(end);
  for (auto i = at; i != after && !conflict; ++i) {
    const Interval& known = i->second;
    const auto check = [&](const Access& earlier, bool writes) {
      if (!conflict && earlier && !clock.covers(earlier))
        conflict = Conflict{earlier, writes, i->first, known.end};
    };
    check(known.write, true);
    check(known.read, false);
    for (const Access& earlier : known.more) check(earlier, false);
  }
  if (at != after && at->first == begin) {
    at->second = Interval{end, written, by, {}, {}};
    intervals_.erase(std::next(at), after);
  } else {
    intervals_.erase(at, after);
    at = intervals_.emplace_hint(after, begin, Interval{end, written, by, {}, {}});
  }
  at = merge_into_previous(at);
  merge_into_previous(std::next(at));
  return conflict;
}

std::optional<Conflict> Shadow::note_read(std::uint64_t begin, std::uint64_t end, const Access& by,
                                          const VectorClock& clock) {
  std::optional<Conflict> conflict;
  if (begin >= end) return conflict;
  split(begin);
  split(end);
  auto i = intervals_.lower_bound(begin);
  for (std::uint64_t at = begin; at < end;) {
    if (i == intervals_.end() || i->first > at) {
      const std::uint64_t gap_end = i == intervals_.end() ? end : std::min(end, i->first);
      i = intervals_.emplace_hint(i, at, Interval{gap_end, untouched_written_, {}, {}, {}});
    }
    Interval& known = i->second;
    if (!conflict && known.write && !clock.covers(known.write)) {
      conflict = Conflict{known.write, true, i->first, known.end};
    }
    // A read that is ordered before this one is implied by it.
    std::erase_if(known.more, [&](const Access& earlier) { return clock.covers(earlier); });
    if (known.read && !clock.covers(known.read)) known.more.push_back(known.read);
    known.read = by;
    at = known.end;
    i = std::next(merge_into_previous(i));
  }
  merge_into_previous(i);
  return conflict;
}

std::optional<Shadow::Range> Shadow::first_unwritten(std::uint64_t begin, std::uint64_t end) const {
  std::uint64_t at = begin;
  for (auto i = first_overlap(begin); at < end; ++i) {
    const std::uint64_t gap_end = i == intervals_.end() ? end : std::min(end, i->first);
    if (at < gap_end) {
      if (!untouched_written_) return Range{at, gap_end};
      at = gap_end;
    }
    if (i == intervals_.end() || at >= end) break;
    const std::uint64_t stop = std::min(end, i->second.end);
    if (!i->second.written) return Range{at, stop};
    at = stop;
  }
  return std::nullopt;
}

std::vector<WrittenRun> Shadow::written_runs(std::uint64_t begin, std::uint64_t end) const {
  std::vector<WrittenRun> runs;
  const auto add = [&](std::uint64_t bytes, bool written) {
    if (bytes == 0) return;
    if (!runs.empty() && runs.back().written == written) {
      runs.back().bytes += bytes;
    } else {
      runs.push_back({bytes, written});
    }
  };
  std::uint64_t at = begin;
  for (auto i = first_overlap(begin); at < end; ++i) {
    const std::uint64_t gap_end = i == intervals_.end() ? end : std::min(end, i->first);
    if (at < gap_end) {
      add(gap_end - at, untouched_written_);
      at = gap_end;
    }
    if (i == intervals_.end() || at >= end) break;
    const std::uint64_t stop = std::min(end, i->second.end);
    add(stop - at, i->second.written);
    at = stop;
  }
  return runs;
}

void Shadow::forget(std::uint64_t begin, std::uint64_t end) {
  split(begin);
  split(end);
  intervals_.erase(intervals_.lower_bound(begin), intervals_.lower_bound(end));
}

}  // namespace softgpu
