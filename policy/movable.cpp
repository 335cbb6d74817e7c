#include "policy/movable.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>

namespace pooch::policy {
namespace {

// What outlives an iteration is worth moving if it is at least this share of all that could move.
constexpr double worth_moving = 1.0 / 16;

struct Pause {
  std::int32_t leaves = 0, returns = 0;  // positions; the number of ops: it does not return
  bool across = false;
  double us = -1;
};

class Finder {
 public:
  Finder(const BufferUses& uses, Movers movers, const AwayAt& away_at)
      : uses_(uses),
        phase_(uses.phase),
        movers_(movers),
        away_at_(away_at),
        can_leave_(buffers_that_can_leave(uses.phase)) {}

  std::vector<MovableMap> run() {
    for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b)
      if (auto map = feature_map(b)) maps_.push_back(std::move(*map));
    if (movers_ != Movers::feature_maps) add_what_outlives();
    return std::move(maps_);
  }

 private:
  std::int32_t ops() const { return static_cast<std::int32_t>(phase_.ops.size()); }
  static std::uint64_t rounded(std::uint64_t bytes) {
    return (bytes + granularity - 1) / granularity * granularity;
  }
  bool can_move(std::uint32_t buffer) const { return can_leave_[buffer]; }

  static bool covers(const Pause& pause, std::int32_t position) {
    return pause.across ? position < pause.returns || position > pause.leaves
                        : pause.leaves < position && position < pause.returns;
  }
  // The one at the position where it is to be away; else the one that takes most time. `may_begin_away`:
  // before its first use as well, and behind its last one if it outlives this iteration. `freed`: it does,
  // and the next one frees it before this position, untouched; outside: it does not.
  Pause pause_of(std::uint32_t buffer, bool may_begin_away, std::int32_t freed = outside) const {
    const auto& at = uses_.positions[buffer];
    const auto wanted = away_at_.find(buffer);
    Pause longest;
    const auto consider = [&](const Pause& pause) {
      if (pause.us > longest.us && (wanted == away_at_.end() || covers(pause, wanted->second)))
        longest = pause;
    };
    for (std::size_t i = 0; i + 1 < at.size(); ++i)
      consider({at[i], at[i + 1], false, uses_.starts_us[at[i + 1]] - uses_.starts_us[at[i] + 1]});
    if (at.empty()) return longest;
    const double rest_us = uses_.starts_us.back() - uses_.starts_us[at.back() + 1];
    const double behind_us = phase_.buffers[buffer].until == outside ? rest_us : 0;
    if (may_begin_away) consider({at.back(), at.front(), true, behind_us + uses_.starts_us[at.front()]});
    if (freed != outside) consider({at.back(), ops(), false, rest_us + uses_.starts_us[freed]});
    return longest;
  }

  MovableMap map_of(std::uint32_t buffer, const Pause& pause) const {
    const ProfileBuffer& memory = phase_.buffers[buffer];
    const auto& at = uses_.positions[buffer];
    MovableMap map;
    map.buffer = buffer;
    map.bytes = rounded(memory.bytes);
    map.leaves = pause.leaves;
    map.returns = std::min(pause.returns, ops() - 1);
    map.across = pause.across;
    map.for_good = pause.returns == ops();
    map.made = memory.from == outside ? 0 : at.front();
    map.ends = memory.until == outside ? ops() - 1 : std::max(at.back(), memory.until - 1);
    map.released = map.ends;
    for (const std::uint32_t v : uses_.versions[buffer]) {
      const ProfileVersion& version = phase_.versions[v];
      const bool crosses = pause.across ? version.producer == outside
                                        : version.producer <= pause.leaves && !version.readers.empty() &&
                                              version.readers.back() >= pause.returns;
      if (crosses && !map.for_good) map.content.push_back(v);
    }
    return map;
  }

  // A feature map or the input crosses the buffer's longest pause, and nothing that outlives the iteration.
  std::optional<MovableMap> feature_map(std::uint32_t buffer) const {
    if (!can_move(buffer) || uses_.positions[buffer].size() < 2) return std::nullopt;
    const Pause pause = pause_of(buffer, false);
    if (pause.returns - pause.leaves < 2) return std::nullopt;
    MovableMap map = map_of(buffer, pause);
    bool movable = false;
    for (const std::uint32_t v : map.content) {
      const Role role = phase_.versions[v].role;
      if (role == Role::parameter || role == Role::gradient) return std::nullopt;
      movable |= role == Role::feature_map || role == Role::input;
      const std::int32_t producer = uses_.producer_of[v];
      if (producer != outside && (map.producers.empty() || map.producers.back() != producer))
        map.producers.push_back(producer);
    }
    if (!movable) return std::nullopt;
    map.droppable = !away_at_.contains(buffer);  // as far as is known here
    return map;
  }

  // The program itself copies to it or from it, at times that no op tells.
  std::vector<bool> copied_by_the_program() const {
    std::vector<bool> copied(phase_.buffers.size(), false);
    for (const ProfileCopy& copy : phase_.copies)
      if (copy.version) copied[phase_.versions[*copy.version].buffer] = true;
    return copied;
  }

  // What an iteration leaves for the next one to free untouched is in that one a buffer of the same size.
  void find_untouched() {
    for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b) {
      const ProfileBuffer& memory = phase_.buffers[b];
      if (can_move(b) && memory.from == outside && memory.until != outside && uses_.positions[b].empty())
        untouched_[memory.bytes].push_back(b);
    }
  }
  std::uint32_t take_untouched(std::uint64_t bytes) {
    auto left = untouched_.find(bytes);
    // What an iteration of another phase left has another size.
    if (left == untouched_.end() && movers_ == Movers::everything_in_turn && !untouched_.empty())
      left = std::prev(untouched_.end());
    if (left == untouched_.end()) return no_buffer;
    const std::uint32_t buffer = left->second.back();
    left->second.pop_back();
    if (left->second.empty()) untouched_.erase(left);
    return buffer;
  }

  // Weights, gradients, optimiser states: there before the iteration, or after it.
  std::optional<MovableMap> what_outlives(std::uint32_t buffer) {
    const ProfileBuffer& memory = phase_.buffers[buffer];
    const bool before = memory.from == outside, after = memory.until == outside;
    if (!can_move(buffer) || (!before && !after)) return std::nullopt;
    const std::uint32_t earlier =
        before || uses_.positions[buffer].empty() ? no_buffer : take_untouched(memory.bytes);
    const Pause pause =
        pause_of(buffer, before, earlier == no_buffer ? outside : phase_.buffers[earlier].until);
    if (pause.us <= 0 || (!pause.across && pause.returns - pause.leaves < 2)) return std::nullopt;
    MovableMap map = map_of(buffer, pause);
    const bool only_read =
        std::none_of(uses_.versions[buffer].begin(), uses_.versions[buffer].end(),
                     [&](std::uint32_t v) { return phase_.versions[v].producer >= pause.returns; });
    const bool leaves_again = !pause.across && !map.for_good && earlier != no_buffer && only_read;
    if (leaves_again) map.released = uses_.positions[buffer].back();
    if (map.for_good || leaves_again) map.earlier = earlier, map.lingers = phase_.buffers[earlier].until - 1;
    map.has_to = map.for_good && movers_ == Movers::everything_in_turn;
    map.arrives = pause.across && !after;
    if (map.arrives) map.leaves = map.ends;
    map.clean =
        map.arrives || (pause.across &&
                        std::all_of(uses_.versions[buffer].begin(), uses_.versions[buffer].end(),
                                    [&](std::uint32_t v) { return phase_.versions[v].producer == outside; }));
    return map;
  }

  // Anything else that is to be away: gradients before the step, what the step makes for itself.
  std::optional<MovableMap> what_is_idle(std::uint32_t buffer) const {
    const ProfileBuffer& memory = phase_.buffers[buffer];
    if (!away_at_.contains(buffer) || memory.from == outside || memory.until == outside) return std::nullopt;
    const Pause pause = pause_of(buffer, false);
    if (pause.us < 0) return std::nullopt;
    return map_of(buffer, pause);
  }

  void add_what_outlives() {
    find_untouched();
    std::vector<bool> taken = copied_by_the_program();
    for (const MovableMap& map : maps_) taken[map.buffer] = true;
    std::vector<MovableMap> more;
    for (std::uint32_t b = 0; b < phase_.buffers.size(); ++b) {
      if (taken[b]) continue;
      if (auto map = what_outlives(b)) more.push_back(std::move(*map));
      if (auto map = what_is_idle(b)) more.push_back(std::move(*map));
    }
    const auto bytes = [](const std::vector<MovableMap>& maps) {
      return std::accumulate(maps.begin(), maps.end(), 0.0, [](double sum, const MovableMap& map) {
        return sum + static_cast<double>(map.bytes);
      });
    };
    if (away_at_.empty() && bytes(more) < worth_moving * (bytes(more) + bytes(maps_))) return;
    for (MovableMap& map : more) maps_.push_back(std::move(map));
  }

  const BufferUses& uses_;
  const PhaseProfile& phase_;
  const Movers movers_;
  const AwayAt& away_at_;
  const std::vector<bool> can_leave_;  // by buffer
  std::vector<MovableMap> maps_;
  std::map<std::uint64_t, std::vector<std::uint32_t>> untouched_;  // by bytes
};

}  // namespace

// Ranges in which one buffer lies in turn, alone, that has no content at the border of an iteration if it
// leaves for good when it can. A layout counts it once.
class RangesInTurn {
 public:
  RangesInTurn(const PhaseProfile& phase, std::vector<MovableMap>& maps) {
    std::map<std::uint32_t, MovableMap*> leaving;
    for (MovableMap& map : maps)
      if (map.for_good) leaving[map.buffer] = &map;
    std::set<std::uint32_t> taken;
    for (std::uint32_t b = 0; b < phase.buffers.size(); ++b) {
      const ProfileBuffer& buffer = phase.buffers[b];
      const bool lasts = buffer.from <= 0 || (buffer.until == outside && !leaving.contains(b));
      for (const std::uint32_t range : buffer.ranges)
        if (!taken.insert(range).second || lasts) shared_.insert(range);
    }
    for (const auto& [buffer, map] : leaving)
      map->in_turn = phase.buffers[buffer].ranges.size() == 2 && alone(phase.buffers[buffer].ranges);
  }
  bool alone(const std::vector<std::uint32_t>& ranges) const {
    return std::none_of(ranges.begin(), ranges.end(),
                        [&](std::uint32_t range) { return shared_.contains(range); });
  }

 private:
  std::set<std::uint32_t> shared_;
};

std::vector<std::uint64_t> bytes_in_turn(const BufferUses& uses, std::vector<MovableMap>& maps) {
  const auto& buffers = uses.phase.buffers;
  const std::size_t ops = uses.phase.ops.size();
  const RangesInTurn in_turn(uses.phase, maps);
  std::vector<std::int64_t> beside(ops, 0);
  std::map<std::uint32_t, std::vector<bool>> held;  // by range
  for (std::uint32_t b = 0; b < buffers.size(); ++b) {
    const ProfileBuffer& buffer = buffers[b];
    const auto& at = uses.positions[b];
    if (buffer.ranges.size() < 2 || !buffer.managed || at.empty() || in_turn.alone(buffer.ranges)) continue;
    const auto map =
        std::find_if(maps.begin(), maps.end(), [&](const MovableMap& m) { return m.buffer == b; });
    const bool leaves = map != maps.end();
    if (leaves && !map->for_good) continue;  // its choice says when it is there
    // One that outlives the iteration has had one before it, which is still there.
    const std::size_t from = buffer.from == outside || (buffer.until == outside && !leaves)
                                 ? 0
                                 : static_cast<std::size_t>(at.front());
    const std::int32_t until = leaves ? map->leaves + 1 : std::max(at.back() + 1, buffer.until);
    const std::size_t end = buffer.until == outside && !leaves ? ops : static_cast<std::size_t>(until);
    for (std::size_t p = from; p < end; ++p) {
      beside[p] -= static_cast<std::int64_t>(buffer.bytes);
      for (const std::uint32_t range : buffer.ranges) {
        std::vector<bool>& mine = held.try_emplace(range, ops, false).first->second;
        if (!mine[p]) beside[p] += static_cast<std::int64_t>(buffer.bytes);
        mine[p] = true;
      }
    }
  }
  std::vector<std::uint64_t> bytes;
  for (const std::int64_t each : beside)
    bytes.push_back(static_cast<std::uint64_t>(std::max<std::int64_t>(0, each)));
  return bytes;
}

std::vector<bool> buffers_that_can_leave(const PhaseProfile& phase) {
  std::vector<bool> can;
  for (const ProfileBuffer& buffer : phase.buffers)
    can.push_back(buffer.managed && buffer.bytes >= granularity);
  for (const ProfileOp& op : phase.ops)
    for (const std::uint32_t b : op.scratch) can[b] = false;
  return can;
}

std::vector<MovableMap> movable_maps(const BufferUses& uses, Movers movers, const AwayAt& away_at) {
  return Finder(uses, movers, away_at).run();
}

}  // namespace pooch::policy
