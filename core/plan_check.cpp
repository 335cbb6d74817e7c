#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "core/plan.h"

namespace pooch {
namespace {

// Checks one plan. The first thing wrong is kept, with its path.
class PlanCheck {
 public:
  explicit PlanCheck(const Plan& plan) : plan_(plan), moves_(plan.maps.size()) {}

  std::string run() {
    // In this order: each relies on the ones in front of it.
    for (const auto stage : {&PlanCheck::maps, &PlanCheck::algorithms, &PlanCheck::actions, &PlanCheck::moves,
                             &PlanCheck::layout}) {
      (this->*stage)();
      if (!wrong_.empty()) break;
    }
    return std::move(wrong_);
  }

 private:
  // "/maps/1/moved is 0: …": `what` is the value, or a sentence on it.
  void fail(const std::string& path, std::string_view what, std::string_view accepted) {
    if (wrong_.empty()) wrong_ = fmt::format("{} {}: {}", path, what, accepted);
  }
  static std::string is(std::uint64_t value) { return fmt::format("is {}", value); }

  void maps();
  void made_by(std::size_t index);
  void algorithms();
  void actions();
  void act(const PlanAction& action, std::int32_t position, bool before, const std::string& path);
  void fetch(const PlanAction& action, std::size_t index, std::int64_t when, const std::string& path);
  void moves();
  void layout();

  struct Moves {
    int away = 0;
    bool back = false;                      // all of it
    std::uint64_t pieces = 0;               // bytes from its start that are fetched before the rest
    std::int64_t away_at = 0, back_at = 0;  // twice the position; before is even, after is odd
  };
  const Plan& plan_;
  std::unordered_map<std::uint32_t, std::size_t> index_of_;     // by number
  std::vector<Moves> moves_;                                    // by index
  std::unordered_map<std::int32_t, std::int64_t> last_replay_;  // by op: as away_at
  std::string wrong_;
};

void PlanCheck::maps() {
  std::unordered_map<std::uint32_t, std::size_t> of_buffer;
  for (std::size_t i = 0; i < plan_.maps.size() && wrong_.empty(); ++i) {
    const PlanMap& map = plan_.maps[i];
    if (i > 0 && plan_.maps[i - 1].map >= map.map)
      fail(fmt::format("/maps/{}/map", i), is(map.map),
           fmt::format("a number above that of the map in front of it, {}", plan_.maps[i - 1].map));
    const auto [other, fresh] = of_buffer.emplace(map.buffer, i);
    if (!fresh)
      fail(fmt::format("/maps/{}/buffer", i), is(map.buffer),
           fmt::format("a buffer of its own, unlike /maps/{}", other->second));
    index_of_.emplace(map.map, i);
    if (map.of == MapClass::swap && (map.moved == 0 || map.moved > map.bytes))
      fail(fmt::format("/maps/{}/moved", i), is(map.moved),
           fmt::format("1 to {}, the map's bytes", map.bytes));
    if (map.of == MapClass::recompute) made_by(i);
  }
}

void PlanCheck::made_by(std::size_t index) {
  const std::vector<std::int32_t>& by = plan_.maps[index].by;
  if (by.empty()) fail(fmt::format("/maps/{}/by", index), "is empty", "at least one op that makes the map");
  for (std::size_t i = 0; i < by.size(); ++i) {
    const std::int32_t least = i == 0 ? 0 : by[i - 1] + 1;
    if (by[i] < least)
      fail(fmt::format("/maps/{}/by/{}", index, i), fmt::format("is {}", by[i]),
           fmt::format("a position from {} on", least));
  }
}

void PlanCheck::algorithms() {
  for (std::size_t i = 0; i < plan_.algorithms.size(); ++i) {
    if (i > 0 && plan_.algorithms[i - 1].op >= plan_.algorithms[i].op)
      fail(fmt::format("/algorithms/{}/op", i), fmt::format("is {}", plan_.algorithms[i].op),
           fmt::format("a position above that of the one in front of it, {}", plan_.algorithms[i - 1].op));
  }
}

void PlanCheck::actions() {
  for (const bool before : {true, false}) {
    for (const auto& [position, list] : before ? plan_.before : plan_.after) {
      const std::string path = fmt::format("/{}/{}", before ? "before" : "after", position);
      if (position < 0) fail(path, "is no position", "whole numbers from 0 on");
      for (std::size_t i = 0; i < list.size() && wrong_.empty(); ++i)
        act(list[i], position, before, fmt::format("{}/{}", path, i));
    }
  }
}

void PlanCheck::act(const PlanAction& action, std::int32_t position, bool before, const std::string& path) {
  using Kind = PlanAction::Kind;
  const std::string what = fmt::format("is \"{} {}\"", name(action.kind), action.subject);
  const std::int64_t when = 2 * std::int64_t{position} + (before ? 0 : 1);
  if (before != (action.kind == Kind::prefetch || action.kind == Kind::replay))
    return fail(path, what, before ? "prefetch and replay before an op" : "evict and drop after an op");
  if (action.kind == Kind::replay) {
    if (action.subject >= static_cast<std::uint32_t>(position))
      return fail(path, what, fmt::format("the replay of an op before op {}", position));
    std::int64_t& last =
        last_replay_.try_emplace(static_cast<std::int32_t>(action.subject), when).first->second;
    last = std::max(last, when);
    return;
  }
  const auto found = index_of_.find(action.subject);
  if (found == index_of_.end()) return fail(path, what, "the number of a map in /maps");
  const MapClass of = plan_.maps[found->second].of,
                 needed = action.kind == Kind::drop ? MapClass::recompute : MapClass::swap;
  if (of != needed)
    return fail(
        path, what,
        fmt::format("a map of class {}, and /maps/{} is of class {}", name(needed), found->second, name(of)));
  if (before) return fetch(action, found->second, when, path);
  ++moves_[found->second].away, moves_[found->second].away_at = when;
}

// Positions ascend, so pieces come in their order.
void PlanCheck::fetch(const PlanAction& action, std::size_t index, std::int64_t when,
                      const std::string& path) {
  Moves& moves = moves_[index];
  const std::uint64_t moved = plan_.maps[index].moved;
  if (moves.back) return fail(path, "fetches a map that is back", "one that is not");
  if (action.up_to > 0 && (action.up_to <= moves.pieces || action.up_to >= moved))
    return fail(path, fmt::format("fetches up to byte {}", action.up_to),
                fmt::format("{} to {}, or no number for all {} bytes", moves.pieces + 1, moved - 1, moved));
  if (moves.pieces == 0) moves.back_at = when;
  moves.pieces = action.up_to;
  moves.back = action.up_to == 0;
}

void PlanCheck::moves() {
  for (std::size_t i = 0; i < plan_.maps.size() && wrong_.empty(); ++i) {
    const PlanMap& map = plan_.maps[i];
    const Moves& moves = moves_[i];
    const std::string path = fmt::format("/maps/{}", i);
    const int away = map.of == MapClass::keep ? 0 : 1;
    const bool freed = map.across && moves.pieces == 0 && !moves.back;
    const bool back = map.of == MapClass::swap && !freed;
    const bool arrives = map.across && moves.away == 0 && moves.back;  // and is freed where it is
    if ((moves.away != away && !arrives) || moves.back != back) {
      fail(path,
           fmt::format("is of class {}, but leaves {} times and is {}", name(map.of), moves.away,
                       moves.back ? "fetched" : "not fetched whole"),
           away == 0                  ? "a map that nothing is done with"
           : map.of == MapClass::swap ? "one eviction, and prefetches of all of it"
                                      : "one drop");
    } else if (back && !map.across && moves.back_at <= moves.away_at) {
      fail(path, "is fetched before it has left", "a prefetch behind the eviction");
    } else if (back && map.across && !arrives && moves.back_at >= moves.away_at) {
      fail(path, "is away across the iteration's end, and leaves before it is fetched",
           "an eviction behind the prefetch");
    }
    for (const std::int32_t op : map.by) {
      const auto replay = last_replay_.find(op);
      if (replay == last_replay_.end() || replay->second <= moves.away_at)
        fail(path + "/by", fmt::format("names op {}, which is not replayed after the map was dropped", op),
             "ops that are");
    }
  }
}

void PlanCheck::layout() {
  if (!plan_.layout) return;
  wrong_ = what_is_wrong(*plan_.layout);
  if (std::find(plan_.layout->phases.begin(), plan_.layout->phases.end(), plan_.phase) ==
      plan_.layout->phases.end())
    fail("/layout/phases", "lacks the plan's phase", "phases with that one among them");
}

}  // namespace

Status check(const Plan& plan) {
  if (const std::string wrong = PlanCheck(plan).run(); !wrong.empty())
    return Error{ErrorCode::invalid_argument, "plan: " + wrong};
  return Done{};
}

}  // namespace pooch
