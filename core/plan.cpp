#include "core/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

namespace pooch {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> class_names{"keep", "swap", "recompute"};
constexpr std::array<std::string_view, 2> backing_names{"remap", "alias"};
constexpr std::array<std::string_view, 4> action_names{"evict", "prefetch", "drop", "replay"};

template <class Enum, std::size_t n>
std::optional<Enum> parse(const std::array<std::string_view, n>& names, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) return std::nullopt;
  return static_cast<Enum>(found - names.begin());
}

OrderedJson write_map(const PlanMap& map) {
  OrderedJson json{{"map", map.map},
                   {"name", map.name},
                   {"buffer", map.buffer},
                   {"bytes", map.bytes},
                   {"class", name(map.of)}};
  if (map.of == MapClass::swap) json["moved"] = map.moved;
  if (map.of == MapClass::recompute) json["by"] = map.by;
  json["why"] = map.why;
  json["cost_ms"] = map.cost_ms;
  if (map.alternative_cost_ms) {
    json["alternative"] = name(map.alternative);
    json["alternative_cost_ms"] = *map.alternative_cost_ms;
  }
  return json;
}

OrderedJson write_algorithm(const PlanAlgorithm& algorithm) {
  return {{"op", algorithm.op},
          {"name", algorithm.name},
          {"takes", algorithm.takes},
          {"instead_of", algorithm.instead_of},
          {"ms", algorithm.ms},
          {"instead_of_ms", algorithm.instead_of_ms},
          {"workspace", algorithm.workspace}};
}

OrderedJson write_actions(const Plan::Actions& actions) {
  OrderedJson json = OrderedJson::object();
  for (const auto& [position, list] : actions) {
    OrderedJson& out = json[std::to_string(position)] = OrderedJson::array();
    for (const PlanAction& action : list)
      out.push_back(fmt::format("{} {}", name(action.kind), action.subject));
  }
  return json;
}

// Reads values and remembers the first thing that is wrong.
class Reader {
 public:
  Result<Plan> read(std::string_view text);

 private:
  bool fail(const std::string& path, const std::string& what) {
    if (wrong_.empty()) wrong_ = fmt::format("plan: {} {}", path, what);
    return false;
  }
  // Long values are cut: the message is one line.
  bool refuse(const std::string& path, const Json& value) {
    return fail(path, "is " + value.dump().substr(0, 60));
  }
  const Json* find(const Json& object, const std::string& at, const char* key) {
    const auto found = object.find(key);
    if (found == object.end()) fail(at + "/" + key, "is missing");
    return found == object.end() ? nullptr : &*found;
  }
  template <class T>
  void take(const Json& object, const std::string& at, const char* key, T& out) {
    const Json* value = find(object, at, key);
    if (value != nullptr && !get(*value, out)) refuse(at + "/" + key, *value);
  }
  template <class T>
  void take(const Json& object, const std::string& at, const char* key, std::optional<T>& out) {
    if (!object.contains(key) || object[key].is_null()) return;
    take(object, at, key, out.emplace());
  }
  template <class Enum, std::size_t n>
  void take(const Json& object, const std::string& at, const char* key, Enum& out,
            const std::array<std::string_view, n>& names) {
    std::string text;
    take(object, at, key, text);
    if (!wrong_.empty()) return;
    if (const auto parsed = parse<Enum>(names, text)) {
      out = *parsed;
    } else {
      fail(at + "/" + key, fmt::format("is \"{}\", not {}", text, fmt::join(names, " or ")));
    }
  }
  static bool get(const Json& value, std::string& out) {
    if (value.is_string()) out = value.get<std::string>();
    return value.is_string();
  }
  static bool get(const Json& value, double& out) {
    if (value.is_number()) out = value.get<double>();
    return value.is_number() && out >= 0;
  }
  static bool get(const Json& value, std::uint64_t& out) {
    if (value.is_number_unsigned()) out = value.get<std::uint64_t>();
    return value.is_number_unsigned();
  }
  static bool get(const Json& value, std::uint32_t& out) {
    std::uint64_t wide = 0;
    if (!get(value, wide) || wide > 0xffffffffu) return false;
    out = static_cast<std::uint32_t>(wide);
    return true;
  }
  static bool get(const Json& value, std::int32_t& out) {
    std::uint64_t wide = 0;
    if (!get(value, wide) || wide > 0x7fffffffu) return false;
    out = static_cast<std::int32_t>(wide);
    return true;
  }

  void read_head(const Json& json);
  void read_maps(const Json& json);
  void read_map(const Json& json, const std::string& at);
  void read_algorithms(const Json& json);
  void read_actions(const Json& json, const char* key, Plan::Actions& out);
  bool read_action(const Json& value, const std::string& at, std::vector<PlanAction>& out);
  void check_moves();
  void check_map(const PlanMap& map, std::size_t index);

  struct Moves {
    int away = 0, back = 0;
    std::int64_t away_at = 0, back_at = 0;  // twice the position; before is even, after is odd
  };
  Plan plan_;
  std::map<std::uint32_t, std::size_t> index_of_;     // by number
  std::vector<Moves> moves_;                          // by index
  std::map<std::int32_t, std::int64_t> last_replay_;  // by op: as away_at
  std::string wrong_;
};

void Reader::read_head(const Json& json) {
  take(json, "", "schema", plan_.schema);
  if (wrong_.empty() && plan_.schema != 1)
    fail("/schema", fmt::format("is {}; this pooch reads 1", plan_.schema));
  take(json, "", "phase", plan_.phase);
  take(json, "", "device", plan_.device);
  take(json, "", "policy", plan_.policy);
  if (json.contains("structure")) take(json, "", "structure", plan_.structure);
  take(json, "", "cap", plan_.cap);
  take(json, "", "seed", plan_.seed);
  take(json, "", "backing", plan_.backing, backing_names);
  take(json, "", "in_core_ms", plan_.in_core_ms);
  take(json, "", "predicted_ms", plan_.predicted_ms);
  take(json, "", "bound_ms", plan_.bound_ms);
  take(json, "", "peak", plan_.peak);
  take(json, "", "host_bytes", plan_.host_bytes);
}

void Reader::read_map(const Json& json, const std::string& at) {
  if (!json.is_object()) return static_cast<void>(refuse(at, json));
  PlanMap map;
  take(json, at, "map", map.map);
  take(json, at, "name", map.name);
  take(json, at, "buffer", map.buffer);
  take(json, at, "bytes", map.bytes);
  take(json, at, "class", map.of, class_names);
  take(json, at, "why", map.why);
  take(json, at, "cost_ms", map.cost_ms);
  if (json.contains("alternative")) {
    take(json, at, "alternative", map.alternative, class_names);
    take(json, at, "alternative_cost_ms", map.alternative_cost_ms.emplace());
  }
  if (!wrong_.empty()) return;
  if (map.of == MapClass::swap) {
    take(json, at, "moved", map.moved);
    if (map.moved == 0 || map.moved > map.bytes)
      fail(at + "/moved", fmt::format("is {} of {} bytes", map.moved, map.bytes));
  }
  if (map.of == MapClass::recompute) {
    const Json* by = find(json, at, "by");
    if (by == nullptr) return;
    if (!by->is_array() || by->empty()) return static_cast<void>(refuse(at + "/by", *by));
    for (std::size_t i = 0; i < by->size(); ++i) {
      if (!get((*by)[i], map.by.emplace_back())) refuse(fmt::format("{}/by/{}", at, i), (*by)[i]);
    }
  }
  if (!plan_.maps.empty() && plan_.maps.back().map >= map.map)
    fail(at + "/map", "is not above the one before it");
  index_of_[map.map] = plan_.maps.size();
  plan_.maps.push_back(std::move(map));
}

void Reader::read_maps(const Json& json) {
  const Json* maps = find(json, "", "maps");
  if (maps == nullptr) return;
  if (!maps->is_array()) return static_cast<void>(refuse("/maps", *maps));
  for (std::size_t i = 0; i < maps->size() && wrong_.empty(); ++i)
    read_map((*maps)[i], fmt::format("/maps/{}", i));
}

void Reader::read_algorithms(const Json& json) {
  if (!json.contains("algorithms")) return;
  const Json& list = json["algorithms"];
  if (!list.is_array()) return static_cast<void>(refuse("/algorithms", list));
  for (std::size_t i = 0; i < list.size() && wrong_.empty(); ++i) {
    const std::string at = fmt::format("/algorithms/{}", i);
    if (!list[i].is_object()) return static_cast<void>(refuse(at, list[i]));
    PlanAlgorithm read;
    take(list[i], at, "op", read.op);
    take(list[i], at, "name", read.name);
    take(list[i], at, "takes", read.takes);
    take(list[i], at, "instead_of", read.instead_of);
    take(list[i], at, "ms", read.ms);
    take(list[i], at, "instead_of_ms", read.instead_of_ms);
    take(list[i], at, "workspace", read.workspace);
    if (i > 0 && plan_.algorithms.back().op >= read.op) fail(at + "/op", "is not above the one before it");
    plan_.algorithms.push_back(std::move(read));
  }
}

bool Reader::read_action(const Json& value, const std::string& at, std::vector<PlanAction>& out) {
  if (!value.is_string()) return refuse(at, value);
  const std::string text = value.get<std::string>();
  const std::size_t space = text.find(' ');
  const auto kind = parse<PlanAction::Kind>(action_names, text.substr(0, space));
  if (!kind || space == std::string::npos) return refuse(at, value);
  PlanAction action{*kind, 0};
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data() + space + 1, end, action.subject);
  if (status != std::errc{} || stop != end) return refuse(at, value);
  if (action.kind != PlanAction::Kind::replay && !index_of_.contains(action.subject)) {
    return fail(at, fmt::format("is \"{}\", but there is no map {}", text, action.subject));
  }
  out.push_back(action);
  return true;
}

void Reader::read_actions(const Json& json, const char* key, Plan::Actions& out) {
  const Json* actions = find(json, "", key);
  if (actions == nullptr) return;
  const std::string top = std::string("/") + key;
  if (!actions->is_object()) return static_cast<void>(refuse(top, *actions));
  for (const auto& [text, list] : actions->items()) {
    const std::string at = top + "/" + text;
    std::int32_t position = 0;
    const auto [stop, status] = std::from_chars(text.data(), text.data() + text.size(), position);
    if (status != std::errc{} || stop != text.data() + text.size() || position < 0) {
      return static_cast<void>(fail(at, "is no position"));
    }
    if (!list.is_array() || list.empty()) return static_cast<void>(refuse(at, list));
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!read_action(list[i], fmt::format("{}/{}", at, i), out[position])) return;
    }
  }
}

void Reader::check_map(const PlanMap& map, std::size_t index) {
  const Moves& moves = moves_[index];
  const std::string at = fmt::format("/maps/{}", index);
  const int expected_away = map.of == MapClass::keep ? 0 : 1,
            expected_back = map.of == MapClass::swap ? 1 : 0;
  if (moves.away != expected_away || moves.back != expected_back) {
    fail(at, fmt::format("is of class {}, but leaves {} times and is fetched {} times", name(map.of),
                         moves.away, moves.back));
  } else if (map.of == MapClass::swap && moves.back_at <= moves.away_at) {
    fail(at, "is fetched before it has left");
  }
  for (const std::int32_t op : map.by) {
    const auto replay = last_replay_.find(op);
    if (replay == last_replay_.end() || replay->second <= moves.away_at) {
      fail(at + "/by", fmt::format("names op {}, which is not replayed after the map was dropped", op));
    }
  }
}

void Reader::check_moves() {
  moves_.resize(plan_.maps.size());
  const auto walk = [&](const Plan::Actions& actions, int half) {
    for (const auto& [position, list] : actions) {
      const std::int64_t when = 2 * std::int64_t{position} + half;
      for (const PlanAction& action : list) {
        if (action.kind == PlanAction::Kind::replay) {
          std::int64_t& last =
              last_replay_.try_emplace(static_cast<std::int32_t>(action.subject), when).first->second;
          last = std::max(last, when);
          continue;
        }
        const std::size_t index = index_of_[action.subject];
        Moves& moves = moves_[index];
        const bool swaps = plan_.maps[index].of == MapClass::swap;
        if (action.kind == PlanAction::Kind::prefetch) {
          ++moves.back, moves.back_at = when;
        } else if (swaps == (action.kind == PlanAction::Kind::evict)) {
          ++moves.away, moves.away_at = when;
        } else {
          fail(fmt::format("/maps/{}", index),
               fmt::format("is of class {}, but there is \"{} {}\"", name(plan_.maps[index].of),
                           name(action.kind), action.subject));
        }
      }
    }
  };
  walk(plan_.before, 0);
  walk(plan_.after, 1);
  for (std::size_t i = 0; i < plan_.maps.size() && wrong_.empty(); ++i) check_map(plan_.maps[i], i);
}

Result<Plan> Reader::read(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Error{ErrorCode::invalid_argument, "plan: not a JSON object"};
  read_head(json);
  if (wrong_.empty()) read_maps(json);
  if (wrong_.empty()) read_algorithms(json);
  if (wrong_.empty()) read_actions(json, "before", plan_.before);
  if (wrong_.empty()) read_actions(json, "after", plan_.after);
  if (wrong_.empty()) check_moves();
  if (!wrong_.empty()) return Error{ErrorCode::invalid_argument, wrong_};
  return std::move(plan_);
}

}  // namespace

std::string_view name(MapClass of) {
  return class_names[static_cast<std::size_t>(of)];
}
std::string_view name(Backing backing) {
  return backing_names[static_cast<std::size_t>(backing)];
}
std::string_view name(PlanAction::Kind kind) {
  return action_names[static_cast<std::size_t>(kind)];
}

// One line per map and per position: plans are read and compared by people.
std::string to_json(const Plan& plan) {
  OrderedJson head{{"schema", plan.schema},
                   {"phase", plan.phase},
                   {"device", plan.device},
                   {"policy", plan.policy},
                   {"structure", plan.structure},
                   {"cap", plan.cap},
                   {"seed", plan.seed},
                   {"backing", name(plan.backing)},
                   {"in_core_ms", plan.in_core_ms},
                   {"predicted_ms", plan.predicted_ms}};
  if (plan.bound_ms) head["bound_ms"] = *plan.bound_ms;
  head["peak"] = plan.peak;
  head["host_bytes"] = plan.host_bytes;
  std::string text = head.dump();
  text.pop_back();
  text += ",\n \"maps\":[";
  for (std::size_t i = 0; i < plan.maps.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + write_map(plan.maps[i]).dump();
  text += "]";
  for (std::size_t i = 0; i < plan.algorithms.size(); ++i)
    text += (i ? ",\n  " : ",\n \"algorithms\":[\n  ") + write_algorithm(plan.algorithms[i]).dump();
  if (!plan.algorithms.empty()) text += "]";
  for (const auto& [key, actions] : {std::pair("before", &plan.before), std::pair("after", &plan.after)}) {
    text += fmt::format(",\n \"{}\":{{", key);
    const OrderedJson json = write_actions(*actions);
    bool first = true;
    for (const auto& [position, list] : json.items()) {
      text += fmt::format("{}\"{}\":{}", first ? "\n  " : ",\n  ", position, list.dump());
      first = false;
    }
    text += "}";
  }
  return text + "}\n";
}

Result<Plan> plan_from_json(std::string_view text) {
  return Reader().read(text);
}

}  // namespace pooch
