#include "core/plan.h"

#include <fmt/core.h>

#include <array>
#include <nlohmann/json.hpp>

namespace pooch {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> class_names{"keep", "swap", "recompute"};
constexpr std::array<std::string_view, 4> action_names{"evict", "prefetch", "drop", "replay"};

// What no text may hold becomes a replacement character: a name may come from anywhere.
std::string dump(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson write_map(const PlanMap& map) {
  OrderedJson json{{"map", map.map},
                   {"name", map.name},
                   {"buffer", map.buffer},
                   {"bytes", map.bytes},
                   {"class", name(map.of)}};
  if (map.of == MapClass::swap) json["moved"] = map.moved;
  if (map.of == MapClass::recompute) json["by"] = map.by;
  if (map.brief) json["brief"] = true;
  if (map.across) json["across"] = true;
  if (map.leaves_again) json["leaves_again"] = true;
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

OrderedJson write_item(const PlanLayout& layout, std::size_t item) {
  OrderedJson stays = OrderedJson::array();
  for (std::size_t s = 0; s < layout.items[item].held.size(); ++s) {
    const LayoutSpan& span = layout.items[item].held[s];
    OrderedJson stay{{"from", span.from}, {"to", span.to}};
    if (span.crosses) stay["crosses"] = true;
    stay["frames"] = layout.layout.frames_of[item][s];
    stays.push_back(std::move(stay));
  }
  return {{"bytes", layout.items[item].bytes}, {"stays", std::move(stays)}};
}

std::string write_layout(const PlanLayout& layout) {
  std::string text = dump({{"phases", layout.phases},
                           {"at_once", layout.at_once},
                           {"wait_us", layout.layout.wait_us},
                           {"moves", layout.layout.moves},
                           {"frames", layout.layout.frames}});
  text.pop_back();
  text += ",\n  \"items\":[";
  for (std::size_t i = 0; i < layout.items.size(); ++i)
    text += (i ? ",\n   " : "\n   ") + dump(write_item(layout, i));
  return text + "]}";
}

std::string write_action(const PlanAction& action) {
  std::string text = fmt::format("{} {}", name(action.kind), action.subject);
  if (action.up_to > 0) text += fmt::format(" {}", action.up_to);
  if (action.formula) text += fmt::format(" {}", name(*action.formula));
  if (action.time) text += fmt::format(" at {:.1f} for {:.1f}", action.time->at_us, action.time->takes_us);
  return text;
}

// By position: an op's start, and what comes before it.
std::map<std::int32_t, OrderedJson> write_actions(const Plan::Actions& actions,
                                                  const std::map<std::int32_t, double>& starts_us) {
  std::map<std::int32_t, OrderedJson> json;
  for (const auto& [position, us] : starts_us) json[position].push_back(fmt::format("start at {:.1f}", us));
  for (const auto& [position, list] : actions)
    for (const PlanAction& action : list) json[position].push_back(write_action(action));
  return json;
}

}  // namespace

std::string_view name(MapClass of) {
  return class_names[static_cast<std::size_t>(of)];
}
std::string_view name(PlanAction::Kind kind) {
  return action_names[static_cast<std::size_t>(kind)];
}

// One line per map and per position: plans are read and compared by people.
std::string to_json(const Plan& plan) {
  OrderedJson head{
      {"schema", plan.schema}, {"phase", plan.phase},           {"device", plan.device},
      {"policy", plan.policy}, {"structure", plan.structure},   {"cap", plan.cap},
      {"seed", plan.seed},     {"in_core_ms", plan.in_core_ms}, {"predicted_ms", plan.predicted_ms}};
  if (plan.bound_ms) head["bound_ms"] = *plan.bound_ms;
  head["peak"] = plan.peak;
  head["host_bytes"] = plan.host_bytes;
  std::string text = dump(head);
  text.pop_back();
  text += ",\n \"maps\":[";
  for (std::size_t i = 0; i < plan.maps.size(); ++i)
    text += (i ? ",\n  " : "\n  ") + dump(write_map(plan.maps[i]));
  text += "]";
  for (std::size_t i = 0; i < plan.algorithms.size(); ++i)
    text += (i ? ",\n  " : ",\n \"algorithms\":[\n  ") + dump(write_algorithm(plan.algorithms[i]));
  if (!plan.algorithms.empty()) text += "]";
  if (plan.layout) text += ",\n \"layout\":" + write_layout(*plan.layout);
  const auto write = [&](std::string_view key, const std::map<std::int32_t, OrderedJson>& by_position) {
    text += fmt::format(",\n \"{}\":{{", key);
    bool first = true;
    for (const auto& [position, list] : by_position) {
      text += fmt::format("{}\"{}\":{}", first ? "\n  " : ",\n  ", position, dump(list));
      first = false;
    }
    text += "}";
  };
  write("before", write_actions(plan.before, plan.starts_us));
  write("after", write_actions(plan.after, {}));
  return text + "}\n";
}

}  // namespace pooch
