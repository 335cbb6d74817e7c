#include "explain_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "core/bytes.h"
#include "plan_facts.h"
#include "run_command.h"
#include "text_file.h"
#include "text_table.h"

namespace pooch::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string class_text(const PlanMap& map) {
  if (map.of != MapClass::swap || map.moved == map.bytes) return std::string(name(map.of));
  return fmt::format("swap {}", format_bytes(map.moved));
}

std::string maps_text(const Plan& plan) {
  Rows rows{{"map", "name", "bytes", "class", "cost ms", "alternative", "its cost ms", "why"}};
  for (const PlanMap& map : plan.maps) {
    const bool other = map.alternative_cost_ms.has_value();
    rows.push_back({fmt::format("{}", map.map), map.name, format_bytes(map.bytes), class_text(map),
                    fmt::format("{:.2f}", map.cost_ms), other ? std::string(name(map.alternative)) : "-",
                    other ? fmt::format("{:.2f}", *map.alternative_cost_ms) : "-", map.why});
  }
  return text_table(rows, {1, 3, 5, 7});
}

std::string algorithms_text(const Plan& plan) {
  if (plan.algorithms.empty()) return "";
  Rows rows{{"op", "name", "takes", "ms", "workspace", "instead of", "ms"}};
  for (const PlanAlgorithm& each : plan.algorithms)
    rows.push_back({fmt::format("{}", each.op), each.name, each.takes, fmt::format("{:.2f}", each.ms),
                    format_bytes(each.workspace), each.instead_of.empty() ? "-" : each.instead_of,
                    fmt::format("{:.2f}", each.instead_of_ms)});
  return fmt::format(
             "{} convolutions take another algorithm than the program's, which changes results: no plan to "
             "carry out\n",
             plan.algorithms.size()) +
         text_table(rows, {1, 2, 5}) + "\n";
}

// As Table 3 of the paper counts them, and what they hold and cost.
std::string totals_text(const Plan& plan) {
  const ClassTotals totals = totals_of(plan);
  std::array<double, 3> cost{};
  for (const PlanMap& map : plan.maps) cost[static_cast<std::size_t>(map.of)] += map.cost_ms;
  Rows rows{{"", "# keep", "# swap", "# recompute", "all"}, {plan.policy}, {"bytes"}, {"cost ms"}};
  for (std::size_t i = 0; i < all_classes.size(); ++i) {
    rows[1].push_back(fmt::format("{}", totals.maps[i]));
    rows[2].push_back(format_bytes(totals.bytes[i]));
    rows[3].push_back(fmt::format("{:.2f}", cost[i]));
  }
  rows[1].push_back(fmt::format("{}", plan.maps.size()));
  rows[2].push_back(format_bytes(totals.bytes[0] + totals.bytes[1] + totals.bytes[2]));
  rows[3].push_back(fmt::format("{:.2f}", cost[0] + cost[1] + cost[2]));
  return text_table(rows, {0});
}

std::string times_text(const Plan& plan) {
  const auto gap = bound_gap(plan);
  std::string text =
      fmt::format("predicted {:.1f} ms per iteration; in-core {:.1f} ms: {}\n", plan.predicted_ms,
                  plan.in_core_ms, percent(overhead_of(plan.predicted_ms, plan.in_core_ms)));
  text +=
      gap ? fmt::format("bound {:.1f} ms, which no plan can beat; gap {}\n", *plan.bound_ms, percent(*gap))
          : "bound: not computed\n";
  return text + fmt::format("peak {} of {} on the device; {} on the host\n", format_bytes(plan.peak),
                            format_bytes(plan.cap), format_bytes(plan.host_bytes));
}

std::string layout_text(const Plan& plan) {
  if (!plan.layout) return "";
  const Layout& layout = plan.layout->layout;
  std::size_t stays = 0, wandering = 0;
  for (const auto& spans : layout.frames_of) {
    stays += spans.size();
    wandering +=
        std::any_of(spans.begin(), spans.end(), [&](const auto& frames) { return frames != spans[0]; });
  }
  return fmt::format(
      "layout: {} in {} frames, {} more than is there at once; {} chunks with {} stays, {} of them not "
      "always in "
      "one place\n{} frames are mapped anew in an iteration; the device is expected to wait {:.1f} ms for "
      "that\n",
      format_bytes(layout.bytes()), layout.frames.size(),
      format_bytes(layout.bytes() - std::min(layout.bytes(), plan.layout->at_once)),
      plan.layout->items.size(), stays, wandering, layout.moves, layout.wait_us / 1e3);
}

}  // namespace

int explain_command(const std::string& path) {
  const auto plan = read_plan(path);
  if (!plan) {
    say("pooch: error: explain: {}: {}\n", path, plan.error().message);
    return exit_bad_usage;
  }
  const std::string head = fmt::format(
      "phase {} on {}, policy {}, {} a layout, {} of device memory, seed {}\n", plan->phase, plan->device,
      plan->policy, plan->layout ? "with" : "without", format_bytes(plan->cap), plan->seed);
  return print_text("explain", head + maps_text(*plan) + "\n" + algorithms_text(*plan) + totals_text(*plan) +
                                   "\n" + times_text(*plan) + layout_text(*plan));
}

}  // namespace pooch::tools
