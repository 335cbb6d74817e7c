#include "policy/pauses.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "policy/problem.h"

namespace pooch::policy {
namespace {

constexpr int most_passes = 400;

class Balance {
 public:
  Balance(const BufferUses& uses, const std::vector<MovableMap>& maps, const std::vector<std::uint64_t>& base)
      : uses_(uses),
        held_(base.begin(), base.end()),
        away_(uses.phase.buffers.size()),
        may_change_(buffers_that_can_leave(uses.phase)) {
    for (const ProfileCopy& copy : uses.phase.copies)
      if (copy.version) may_change_[uses.phase.versions[*copy.version].buffer] = false;
    for (const MovableMap& map : maps) {
      if (map.for_good || map.leaves_again()) may_change_[map.buffer] = false;
      away_[map.buffer] = times_away(map);
      const auto bytes = static_cast<std::int64_t>(map.bytes);
      hold(map.made, map.ends, bytes);
      for (const auto& [from, to] : away_[map.buffer]) hold(from, to, -bytes);
    }
  }

  std::uint64_t need() const {
    return static_cast<std::uint64_t>(*std::max_element(held_.begin(), held_.end()));
  }
  void aim_at(std::uint64_t memory) {
    for (int pass = 0; pass < most_passes && need() > memory; ++pass) {
      const auto most = std::max_element(held_.begin(), held_.end());
      if (!relieve(static_cast<std::int32_t>(most - held_.begin()), static_cast<std::int64_t>(memory))) break;
    }
  }
  const AwayAt& changed() const { return changed_; }

 private:
  using Times = std::vector<std::pair<std::int32_t, std::int32_t>>;  // inclusive

  // That a buffer is away at a position, in place of when it is away now.
  struct Change {
    std::uint32_t buffer;
    bool over = false;  // it then adds to what is too much elsewhere
    bool is_new = false;
    std::int64_t bytes = 0;
    auto order() const { return std::tuple(over, is_new, -bytes, buffer); }
  };

  std::int32_t ops() const { return static_cast<std::int32_t>(uses_.phase.ops.size()); }
  static Times times(std::int32_t made, std::int32_t leaves, std::int32_t returns, std::int32_t ends,
                     bool across) {
    if (across) return {{made, returns - 1}, {leaves + 1, ends}};
    return {{leaves + 1, returns - 1}};
  }
  static Times times_away(const MovableMap& map) {
    if (map.for_good) return {{map.leaves + 1, map.ends}};
    Times away = times(map.made, map.leaves, map.returns, map.ends, map.across);
    if (map.leaves_again()) away.emplace_back(map.released + 1, map.ends);
    return away;
  }
  // When the buffer is away if it is at this position: between two uses, or across the iteration's end.
  Times times_around(std::uint32_t buffer, std::int32_t position) const {
    const ProfileBuffer& memory = uses_.phase.buffers[buffer];
    const auto& at = uses_.positions[buffer];
    const bool before = memory.from == outside, after = memory.until == outside;
    if (at.empty()) return {};
    const auto next = std::lower_bound(at.begin(), at.end(), position);
    if (next != at.end() && *next == position) return {};
    if (next == at.begin() || next == at.end()) {
      const bool covered = before && (after || next == at.begin());
      const std::int32_t leaves = after ? at.back() : ops() - 1;
      return covered ? times(0, leaves, at.front(), ops() - 1, true) : Times{};
    }
    if (*next - *std::prev(next) < 2) return {};
    return times(0, *std::prev(next), *next, 0, false);
  }

  void hold(std::int32_t from, std::int32_t to, std::int64_t bytes) {
    for (std::int32_t p = from; p <= to; ++p) held_[static_cast<std::size_t>(p)] += bytes;
  }
  std::int64_t most_held(const Times& times) const {
    std::int64_t most = 0;
    for (const auto& [from, to] : times)
      for (std::int32_t p = from; p <= to; ++p) most = std::max(most, held_[static_cast<std::size_t>(p)]);
    return most;
  }
  static bool within(const Times& times, std::int32_t position) {
    return std::any_of(times.begin(), times.end(), [position](const auto& each) {
      return each.first <= position && position <= each.second;
    });
  }
  static std::int64_t rounded(std::uint64_t bytes) {
    return static_cast<std::int64_t>((bytes + granularity - 1) / granularity * granularity);
  }
  bool lives(const ProfileBuffer& buffer, std::int32_t position) const {
    return (buffer.from == outside || buffer.from <= position) &&
           (buffer.until == outside || position < buffer.until);
  }

  // Every change leaves less than there was at the position wherever it adds something, so this ends.
  bool relieve(std::int32_t position, std::int64_t memory) {
    std::vector<Change> changes;
    const std::int64_t& here = held_[static_cast<std::size_t>(position)];
    for (std::uint32_t b = 0; b < away_.size(); ++b) {
      const ProfileBuffer& buffer = uses_.phase.buffers[b];
      if (!may_change_[b] || !lives(buffer, position) || within(away_[b], position) ||
          times_around(b, position).empty())
        continue;
      const std::int64_t bytes = rounded(buffer.bytes), elsewhere = most_held(away_[b]) + bytes;
      if (away_[b].empty() || elsewhere < here)
        changes.push_back({b, !away_[b].empty() && elsewhere > memory, away_[b].empty(), bytes});
    }
    std::sort(changes.begin(), changes.end(),
              [](const Change& a, const Change& b) { return a.order() < b.order(); });
    bool relieved = false;
    for (const Change& change : changes) {
      if (here <= memory) break;
      Times& away = away_[change.buffer];
      if (!away.empty() && most_held(away) + change.bytes >= here) continue;
      for (const auto& [from, to] : away) hold(from, to, change.bytes);
      away = times_around(change.buffer, position);
      for (const auto& [from, to] : away) hold(from, to, -change.bytes);
      changed_[change.buffer] = position;
      relieved = true;
    }
    return relieved;
  }

  BufferUses uses_;                 // references
  std::vector<std::int64_t> held_;  // by position
  std::vector<Times> away_;         // by buffer
  std::vector<bool> may_change_;
  AwayAt changed_;
};

}  // namespace

// Aiming lower makes other changes, and some of them end lower.
AwayAt other_pauses(const BufferUses& uses, const std::vector<MovableMap>& maps,
                    const std::vector<std::uint64_t>& base, std::uint64_t memory) {
  const Balance before(uses, maps, base);
  if (before.need() <= memory) return {};
  std::pair best{before.need(), AwayAt{}};
  for (const std::uint64_t eighths : {8, 6, 4}) {
    Balance balance = before;
    balance.aim_at(memory / 8 * eighths);
    if (balance.need() < best.first) best = {balance.need(), balance.changed()};
    if (best.first <= memory) break;
  }
  return best.second;
}

}  // namespace pooch::policy
