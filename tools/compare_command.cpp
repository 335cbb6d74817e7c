#include "compare_command.h"

#include <fmt/core.h>

#include <cstdio>
#include <map>
#include <vector>

#include "core/bytes.h"
#include "plan_facts.h"
#include "run_command.h"
#include "text_file.h"
#include "text_table.h"

namespace pooch::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

// Several maps of a plan may have one name: the first of one plan belongs to the first of the other.
std::map<std::pair<std::string, int>, const PlanMap*> by_name(const Plan& plan) {
  std::map<std::string, int> seen;
  std::map<std::pair<std::string, int>, const PlanMap*> maps;
  for (const PlanMap& map : plan.maps) maps[{map.name, seen[map.name]++}] = &map;
  return maps;
}

std::string class_text(const PlanMap* map) {
  return map != nullptr ? std::string(name(map->of)) : "-";
}

std::string cost_text(const PlanMap* map) {
  return map != nullptr ? fmt::format("{:.2f}", map->cost_ms) : "-";
}

// In the first plan's order, then what only the second has.
std::string maps_text(const Plan& a, const Plan& b) {
  Rows rows{{"name", "bytes", "A", "cost ms", "B", "cost ms"}};
  const auto add = [&](const PlanMap& any, const PlanMap* in_a, const PlanMap* in_b) {
    rows.push_back({any.name, format_bytes(any.bytes), class_text(in_a), cost_text(in_a), class_text(in_b),
                    cost_text(in_b)});
  };
  auto left = by_name(b);
  std::map<std::string, int> seen;
  std::size_t same = 0;
  for (const PlanMap& map : a.maps) {
    const auto found = left.extract({map.name, seen[map.name]++});
    const PlanMap* other = found ? found.mapped() : nullptr;
    if (other == nullptr || other->of != map.of) {
      add(map, &map, other);
    } else {
      ++same;
    }
  }
  for (const auto& [key, map] : left) add(*map, nullptr, map);
  const std::string head =
      fmt::format("{} maps are of the same class in both, {} are not\n", same, rows.size() - 1);
  return rows.size() == 1 ? head : head + text_table(rows, {0, 2, 4});
}

std::vector<std::string> row_of(const char* which, const Plan& plan) {
  const ClassTotals totals = totals_of(plan);
  const auto gap = bound_gap(plan);
  std::vector<std::string> row{which,
                               plan.policy,
                               plan.layout ? "yes" : "no",
                               format_bytes(plan.cap),
                               fmt::format("{:.1f}", plan.predicted_ms),
                               percent(overhead_of(plan.predicted_ms, plan.in_core_ms)),
                               gap ? percent(*gap) : "-",
                               format_bytes(plan.peak),
                               format_bytes(plan.host_bytes)};
  for (const std::size_t count : totals.maps) row.push_back(fmt::format("{}", count));
  return row;
}

}  // namespace

int compare_command(const std::string& first, const std::string& second) {
  std::vector<Plan> plans;
  for (const std::string& path : {first, second}) {
    auto plan = read_plan(path);
    if (!plan) {
      say("pooch: error: compare: {}: {}\n", path, plan.error().message);
      return exit_bad_usage;
    }
    plans.push_back(std::move(*plan));
  }
  const Plan &a = plans[0], &b = plans[1];
  std::string text;
  if (a.phase != b.phase)
    text += fmt::format("the plans are for different phases: {} and {}\n", a.phase, b.phase);
  text += text_table({{"", "policy", "layout", "memory", "time ms", "overhead", "gap", "peak", "on the host",
                       "keep", "swap", "recompute"},
                      row_of("A", a),
                      row_of("B", b)},
                     {0, 1, 2});
  return print_text("compare", text + "\n" + maps_text(a, b));
}

}  // namespace pooch::tools
