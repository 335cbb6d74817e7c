#include "runtime/script/script.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/pages.h"
#include "runtime/script/content.h"
#include "runtime/script/script_lives.h"

namespace pooch::runtime {
namespace {

constexpr std::uint32_t none = ScriptLives::no_map;

// Made again by the replays before one op.
struct ReplayChain {
  std::set<std::uint32_t> returning;                        // maps that come back with it
  std::map<std::uint32_t, ReplayPlace> made;                // by version
  std::map<std::uint32_t, std::uint32_t> slot_of_buffer;    // the latest
  std::map<std::uint32_t, Content::Writes> writes_of_slot;  // made there, in order
  std::uint64_t small_used = 0;                             // bytes
};

}  // namespace

class ScriptCompiler {
 public:
  ScriptCompiler(const Plan& plan, const PhaseProfile& phase, double out_us_per_byte)
      : plan_(plan), phase_(phase), content_(phase), out_us_per_byte_(out_us_per_byte) {
    script_.plan_ = plan;
    script_.us_per_byte_ = out_us_per_byte;
    for (const ProfileOp& op : phase_.ops) one_stream_ &= op.stream == phase_.ops.front().stream;
  }

  Result<Script> compile() {
    if (const auto checked = check(); !checked) return checked.error();
    take_maps();
    script_.keeps_.assign(phase_.ops.size(), false);
    script_.through_.assign(phase_.ops.size(), {});
    // In the order of execution: what a replay finds depends on those before it.
    for (std::int32_t p = 0; p < ops(); ++p) {
      position_ = p;
      if (const auto copied = content_.copy(p); !copied) return copied.error();
      if (const auto added = add_before(p); !added) return added.error();
      end_chain();
      if (const auto run = content_.run(p); !run) return run.error();
      add_after(p);
    }
    if (const auto copied = content_.copy(ops()); !copied) return copied.error();
    if (const auto ended = content_.end(); !ended) return ended.error();
    script_.before_.starts.push_back(size(script_.before_));
    script_.after_.starts.push_back(size(script_.after_));
    find_served();
    find_touches();
    ScriptLives(script_, phase_, map_of_buffer_, out_us_per_byte_).find(uses_of_slot_);
    return std::move(script_);
  }

 private:
  using Places = std::map<std::uint32_t, ReplayPlace>;  // by buffer

  static std::uint32_t size(const ScriptActions& actions) {
    return static_cast<std::uint32_t>(actions.list.size());
  }
  std::int32_t ops() const { return static_cast<std::int32_t>(phase_.ops.size()); }
  static Error wrong(std::string what) { return {ErrorCode::invalid_argument, "plan: " + std::move(what)}; }

  Status check() const {
    if (const auto consistent = pooch::check(plan_); !consistent) return consistent.error();
    if (plan_.phase != phase_.id) return wrong(fmt::format("is of phase {}, not {}", plan_.phase, phase_.id));
    if (const std::string mine = structure_of(phase_); plan_.structure != mine)
      return wrong(fmt::format("was made for structure '{}'; the phase has {}", plan_.structure, mine));
    for (const Plan::Actions* actions : {&plan_.before, &plan_.after})
      if (!actions->empty() && actions->rbegin()->first >= ops())
        return wrong(fmt::format("acts beyond the phase's {} ops", ops()));
    for (const PlanMap& map : plan_.maps)
      if (map.buffer >= phase_.buffers.size() || !phase_.buffers[map.buffer].managed)
        return wrong(fmt::format("map {} is no managed buffer", map.map));
    return Done{};
  }

  void take_maps() {
    map_of_buffer_.assign(phase_.buffers.size(), none);
    for (const PlanMap& map : plan_.maps) {
      if (map.of == MapClass::keep) continue;
      index_of_[map.map] = static_cast<std::uint32_t>(script_.maps_.size());
      script_.names_.push_back(map.name);
      map_of_buffer_[map.buffer] = static_cast<std::uint32_t>(script_.maps_.size());
      script_.maps_.push_back({map.map,
                               map.buffer,
                               map.of,
                               map.moved < map.bytes ? map.moved : map.bytes,
                               {},
                               map.across,
                               map.leaves_again});
    }
    for (const PlanMap& map : plan_.maps)
      if (map.of == MapClass::recompute) content_.add(map, map.brief ? last_made(map) : outside);
  }

  // The first op that reads or writes the map's memory once it was dropped; the number of ops: none does.
  std::int32_t first_use_without(const PlanMap& map) const {
    std::int32_t first = ops();
    for (const auto& [dropped, actions] : plan_.after) {
      const bool drops = std::any_of(actions.begin(), actions.end(), [&](const PlanAction& action) {
        return action.kind == PlanAction::Kind::drop && action.subject == map.map;
      });
      for (std::int32_t p = dropped + 1; drops && p < first; ++p)
        if (const auto& used = phase_.ops[p].operands;
            std::find(used.begin(), used.end(), map.buffer) != used.end())
          first = p;
    }
    return first;
  }

  // The last position before which all of it is made again for a reader of its own. Later ones are for
  // others.
  std::int32_t last_made(const PlanMap& map) const {
    const std::int32_t used = first_use_without(map);
    const auto makes_all = [&](const auto& before) {
      return std::all_of(map.by.begin(), map.by.end(), [&](std::int32_t op) {
        return std::any_of(before.second.begin(), before.second.end(), [op](const PlanAction& action) {
          return action.kind == PlanAction::Kind::replay && action.subject == static_cast<std::uint32_t>(op);
        });
      });
    };
    const auto last = std::find_if(plan_.before.rbegin(), plan_.before.rend(), [&](const auto& before) {
      return before.first <= used && makes_all(before);
    });
    return last == plan_.before.rend() ? outside : last->first;
  }

  Status add_before(std::int32_t p) {
    script_.before_.starts.push_back(size(script_.before_));
    const auto found = plan_.before.find(p);
    if (found == plan_.before.end()) return Done{};
    content_.begin_chain(p, found->second);
    for (std::uint32_t map = 0; map < script_.maps_.size(); ++map)
      if (content_.returns(script_.maps_[map].buffer)) chain_.returning.insert(map);
    for (const PlanAction& action : found->second) {
      std::uint32_t subject = 0;
      if (action.kind == PlanAction::Kind::replay) {
        subject = static_cast<std::uint32_t>(script_.replays_.size());
        if (const auto added = add_replay(static_cast<std::int32_t>(action.subject), p, action.formula);
            !added)
          return added;
      } else {
        subject = index_of_.at(action.subject);
      }
      const std::uint64_t all = ~std::uint64_t{0};
      script_.before_.list.push_back(
          {action.kind, subject, action.up_to == 0 ? all : action.up_to, action.time});
    }
    return Done{};
  }

  void add_after(std::int32_t p) {
    script_.after_.starts.push_back(size(script_.after_));
    const auto found = plan_.after.find(p);
    if (found == plan_.after.end()) return;
    for (const PlanAction& action : found->second) {
      const std::uint32_t map = index_of_.at(action.subject);
      if (action.kind == PlanAction::Kind::drop) content_.drop(script_.maps_[map].buffer);
      script_.after_.list.push_back({action.kind, map, 0, action.time});
    }
  }

  // --- replays

  Status add_replay(std::int32_t q, std::int32_t p, std::optional<Formula> formula) {
    ScriptReplay replay;
    replay.position = q;
    script_.keeps_[q] = true;
    const ProfileOp& op = phase_.ops[q];
    const ProfileSubstitute* const by = formula ? substitute_of(q, *formula, replay) : nullptr;
    // First what it reads: an op that works in place finds its input where its output will be.
    Places places;
    for (const std::uint32_t v : by != nullptr ? by->reads : op.reads)
      if (const auto read = add_read(q, p, v, places); !read) return read.error();
    for (const std::uint32_t v : by != nullptr ? by->makes : op.writes)
      if (const auto written = add_write(q, p, v, places, replay); !written) return written.error();
    for (const std::uint32_t buffer : phase_.ops[q].operands) {
      replay.operands.push_back(by == nullptr || places.contains(buffer) ? place(q, p, buffer, places)
                                                                         : ReplayPlace{});
      if (buffer == no_buffer || replay.operands.back().kind != ReplayPlace::Kind::original ||
          (by != nullptr && !places.contains(buffer)))
        continue;
      if (chain_.returning.contains(map_of_buffer_[buffer]))
        replay.operands.back().map = map_of_buffer_[buffer];
      const std::int32_t freed = phase_.buffers[buffer].until;
      if (freed != outside && freed <= p && phase_.buffers[buffer].from <= q)
        return wrong(fmt::format("the replay of op {} before op {} uses memory that is freed", q, p));
    }
    for (const std::uint32_t map : replay.restores) content_.replayed(script_.maps_[map].buffer, q);
    script_.replays_.push_back(std::move(replay));
    return Done{};
  }

  // nullptr: this phase does not know what that needs, and the call is made.
  const ProfileSubstitute* substitute_of(std::int32_t q, Formula formula, ScriptReplay& replay) {
    const auto& by = phase_.ops[q].substitute;
    if (!by) return nullptr;
    replay.formula = formula;
    replay.clip = by->clip;
    if (by->through != outside) script_.through_[by->through] = {q, by->clip};
    return &*by;
  }

  // Made again for the chain at hand, and where all versions of its buffer are that the op reads.
  Status add_read(std::int32_t q, std::int32_t p, std::uint32_t v, Places& places) {
    const std::uint32_t buffer = phase_.versions[v].buffer;
    const auto made = chain_.made.find(v);
    ReplayPlace where;
    if (made != chain_.made.end() && content_.intact(writes_to(made->second, buffer), v, q)) {
      where = made->second;
    } else if (!content_.in_place(v, q, p) && !updates_itself(phase_.ops[q], buffer)) {
      return wrong(fmt::format("the replay of op {} before op {} reads what is gone", q, p));
    }
    const auto [at, first] = places.try_emplace(buffer, where);
    if (!first && at->second != where)
      return wrong(fmt::format("the replay of op {} before op {} reads one buffer in two places", q, p));
    return Done{};
  }

  Status add_write(std::int32_t q, std::int32_t p, std::uint32_t v, Places& places, ScriptReplay& replay) {
    const std::uint32_t buffer = phase_.versions[v].buffer;
    const std::uint32_t map = content_.returns(buffer) ? map_of_buffer_[buffer] : none;
    const auto used = places.find(buffer);
    ReplayPlace where;
    if (map != none) {
      if (std::find(replay.restores.begin(), replay.restores.end(), map) == replay.restores.end())
        replay.restores.push_back(map);
    } else if (used != places.end() && used->second.kind == ReplayPlace::Kind::temporary) {
      where = used->second;  // in place, in temporary memory
    } else if (used != places.end() && !updates_itself(phase_.ops[q], buffer)) {
      return wrong(fmt::format("the replay of op {} before op {} would overwrite what lives", q, p));
    } else {
      where = {ReplayPlace::Kind::temporary, slot_for(v)};
    }
    if (used != places.end() && map != none && used->second != where)
      return wrong(fmt::format("the replay of op {} before op {} would overwrite what lives", q, p));
    places[buffer] = where;
    chain_.made[v] = where;
    writes_to(where, buffer).push_back(v);
    return Done{};
  }

  // Slices of one buffer lie side by side as they did, for who reads several of them. One that is made a
  // second time is for another map's sake.
  std::uint32_t slot_for(std::uint32_t v) {
    const std::uint32_t buffer = phase_.versions[v].buffer;
    const auto [at, fresh] = chain_.slot_of_buffer.try_emplace(buffer);
    const auto& there = chain_.writes_of_slot[at->second];
    if (fresh || std::find(there.begin(), there.end(), v) != there.end())
      at->second = new_slot(phase_.buffers[buffer].bytes);
    return at->second;
  }

  // Made again there, in order.
  Content::Writes& writes_to(const ReplayPlace& place, std::uint32_t buffer) {
    return place.kind == ReplayPlace::Kind::temporary ? chain_.writes_of_slot[place.slot]
                                                      : content_.writes(buffer);
  }

  ReplayPlace place(std::int32_t q, std::int32_t p, std::uint32_t buffer, const Places& places) {
    if (buffer == no_buffer) return {};
    const auto found = places.find(buffer);
    if (found != places.end()) return found->second;
    const auto& scratch = phase_.ops[q].scratch;
    if (std::find(scratch.begin(), scratch.end(), buffer) == scratch.end()) return {};
    // The program's own workspace serves where it is there, is nothing else, and only one stream could be
    // using it.
    const ProfileBuffer& memory = phase_.buffers[buffer];
    const bool there =
        memory.from <= q && (memory.until == outside || memory.until > p) && !content_.holds(buffer);
    if (there && one_stream_) return {};
    return {ReplayPlace::Kind::temporary, new_slot(phase_.buffers[buffer].bytes)};
  }

  // Running statistics: held from iteration to iteration, read and written by one op. A replay leaves them
  // alone.
  bool updates_itself(const ProfileOp& op, std::uint32_t buffer) const {
    const auto in_buffer = [&](std::uint32_t v) { return phase_.versions[v].buffer == buffer; };
    return op.kind == OpKind::batch_norm_forward && phase_.buffers[buffer].from == outside &&
           std::any_of(op.writes.begin(), op.writes.end(), in_buffer) &&
           std::all_of(op.reads.begin(), op.reads.end(), [&](std::uint32_t v) {
             return !in_buffer(v) || phase_.versions[v].role == Role::parameter;
           });
  }

  std::uint32_t new_slot(std::uint64_t bytes) {
    ReplaySlot slot{bytes, bytes < smallest_managed, chain_.small_used, {position_, position_}};
    if (slot.small) {
      chain_.small_used += round_up(bytes, 512);
      script_.small_bytes_ = std::max(script_.small_bytes_, chain_.small_used);
    }
    script_.slots_.push_back(slot);
    return static_cast<std::uint32_t>(script_.slots_.size() - 1);
  }

  // The replays before one op are done: temporary memory ends with its last reader, what was dropped is back.
  void end_chain() {
    ScriptLives::SlotUses uses;
    for (; ended_ < script_.replays_.size(); ++ended_) {
      const auto replay = static_cast<std::uint32_t>(ended_);
      for (const ReplayPlace& place : script_.replays_[ended_].operands)
        if (place.kind == ReplayPlace::Kind::temporary)
          uses.try_emplace(place.slot, replay, replay).first->second.second = replay;
    }
    for (const auto& [slot, of] : uses) script_.replays_[of.second].ends.push_back(slot);
    uses_of_slot_.merge(uses);
    chain_ = {};
  }

  // Backwards: a replay serves the maps that it writes into and those that its readers serve.
  void find_served() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> of_slot, of_map;  // readers' maps
    const auto join = [](std::vector<std::uint32_t>& into, const std::vector<std::uint32_t>& more) {
      into.insert(into.end(), more.begin(), more.end());
      std::sort(into.begin(), into.end());
      into.erase(std::unique(into.begin(), into.end()), into.end());
    };
    for (std::size_t i = script_.replays_.size(); i-- > 0;) {
      ScriptReplay& replay = script_.replays_[i];
      join(replay.serves, replay.restores);
      for (const std::uint32_t map : replay.restores) join(replay.serves, of_map[map]);
      for (const ReplayPlace& place : replay.operands)
        if (place.kind == ReplayPlace::Kind::temporary) join(replay.serves, of_slot[place.slot]);
      for (const ReplayPlace& place : replay.operands)
        if (place.kind == ReplayPlace::Kind::temporary) join(of_slot[place.slot], replay.serves);
      // What lies in temporary memory is another version than the map's: no replay before needs to bring that
      // back.
      for (std::size_t o = 0; o < replay.operands.size(); ++o) {
        const std::uint32_t buffer = phase_.ops[replay.position].operands[o];
        if (buffer == no_buffer || map_of_buffer_[buffer] == none ||
            replay.operands[o].kind == ReplayPlace::Kind::temporary)
          continue;
        const std::uint32_t map = map_of_buffer_[buffer];
        if (script_.maps_[map].of == MapClass::recompute) join(of_map[map], replay.serves);
      }
    }
    for (std::uint32_t i = 0; i < script_.replays_.size(); ++i)
      for (const std::uint32_t map : script_.replays_[i].serves) script_.maps_[map].chain.push_back(i);
  }

  void find_touches() {
    std::vector<bool> seen(script_.maps_.size(), false);
    script_.first_touch_.resize(phase_.ops.size());
    for (std::int32_t p = 0; p < ops(); ++p) {
      const auto& operands = phase_.ops[p].operands;
      for (std::uint32_t i = 0; i < operands.size(); ++i) {
        if (operands[i] == no_buffer) continue;
        const std::uint32_t map = map_of_buffer_[operands[i]];
        if (map == none || seen[map]) continue;
        seen[map] = true;
        script_.first_touch_[p].push_back({i, map});
      }
    }
  }

  const Plan& plan_;
  const PhaseProfile& phase_;
  Script script_;
  std::map<std::uint32_t, std::uint32_t> index_of_;  // by the plan's numbers of maps
  std::vector<std::uint32_t> map_of_buffer_;
  Content content_;
  ReplayChain chain_;  // that is at hand
  ScriptLives::SlotUses uses_of_slot_;
  double out_us_per_byte_;
  std::size_t ended_ = 0;
  std::int32_t position_ = 0;
  bool one_stream_ = true;
};

std::int32_t Script::step_before_end(std::uint32_t buffer) const {
  constexpr double spare = 1.3;
  const double latest =
      times_.starts.back() - spare * us_per_byte_ * static_cast<double>(lives_[buffer].bytes);
  const auto after = std::upper_bound(times_.starts.begin(), times_.starts.end() - 1, latest);
  return std::max(0, static_cast<std::int32_t>(after - times_.starts.begin()) - 1);
}

Result<Script> Script::compile(const Plan& plan, const PhaseProfile& phase, double out_us_per_byte) {
  return ScriptCompiler(plan, phase, out_us_per_byte).compile();
}

}  // namespace pooch::runtime
