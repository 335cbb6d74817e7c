#include "simulate_rows.h"

#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "core/bytes.h"
#include "plan_command.h"
#include "plan_facts.h"
#include "policy/planner.h"
#include "text_table.h"

namespace pooch::tools {
namespace {

using Json = nlohmann::ordered_json;

// A plan that swaps every map fits wherever any does, and is cheap to make; the bound is the same for all.
std::optional<double> bound_ms(const SimulationInput& input, policy::PlanRequest request) {
  request.bound = true;
  const auto plan = policy::make_plan(input.profile, input.phase, "swap-all", request);
  return plan ? plan->bound_ms : std::nullopt;
}

Result<Trial> attempt(const SimulationInput& input, const std::string& policy) {
  policy::PlanRequest request{input.profile.cap_bytes, input.link_out, input.link_in};
  request.bound = false;
  request.allow_numerics = true;
  const auto start = std::chrono::steady_clock::now();
  auto plan = policy::make_plan(input.profile, input.phase, policy, request);
  Trial trial;
  trial.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!plan && plan.error().code != ErrorCode::out_of_memory) return plan.error();
  if (!plan) {
    trial.why = plan.error().message;
  } else if (plan->host_bytes > input.profile.host_budget_bytes) {
    trial.why = fmt::format("{} would page-lock {} of the host's memory, and may use {}", policy,
                            format_bytes(plan->host_bytes), format_bytes(input.profile.host_budget_bytes));
  } else {
    trial.plan = std::move(*plan);
    if (!changes_numerics(policy)) trial.plan->bound_ms = bound_ms(input, request);
  }
  return trial;
}

Json or_null(const std::optional<double>& value) {
  return value ? Json(*value) : Json(nullptr);
}

double images_per_s(const Simulation& simulation, double ms) {
  return static_cast<double>(*simulation.batch) * 1e3 / ms;
}

std::vector<std::string> head_of(const Simulation& simulation) {
  std::vector<std::string> head{"policy", "time ms", "overhead"};
  if (simulation.batch) head.push_back("images/s");
  for (const char* cell : {"peak", "keep", "swap", "recompute", "plan s", "gap"}) head.push_back(cell);
  if (simulation.executed)
    for (const char* cell : {"actual ms", "actual", "actual peak"}) head.push_back(cell);
  return head;
}

void add_plan(const Simulation& simulation, const Trial& trial, std::vector<std::string>& cells) {
  const Plan& plan = *trial.plan;
  cells.insert(cells.end(), {fmt::format("{:.1f}", plan.predicted_ms),
                             percent(overhead_of(plan.predicted_ms, simulation.in_core_ms))});
  if (simulation.batch) cells.push_back(fmt::format("{:.1f}", images_per_s(simulation, plan.predicted_ms)));
  cells.push_back(format_bytes(plan.peak));
  for (const std::size_t count : totals_of(plan).maps) cells.push_back(fmt::format("{}", count));
  const auto gap = bound_gap(plan);
  cells.insert(cells.end(), {fmt::format("{:.2f}", trial.seconds), gap ? percent(*gap) : "-"});
}

// What is not known stays "-".
std::vector<std::string> row_of(const Simulation& simulation, const SimulatedPolicy& row) {
  constexpr std::size_t of_executions = 3;
  const std::size_t columns = head_of(simulation).size();
  std::vector<std::string> cells{row.policy};
  if (row.trial.plan) add_plan(simulation, row.trial, cells);
  const std::size_t of_plans = columns - (simulation.executed ? of_executions : 0);
  cells.resize(of_plans, "-");
  if (!row.makes_plans) {
    cells[1] = "no plan";
  } else if (!row.trial.plan) {
    cells[1] = "does not fit";
    cells[of_plans - 2] = fmt::format("{:.2f}", row.trial.seconds);
  }
  if (const auto& execution = row.execution; execution && execution->ms)
    cells.insert(cells.end(), {fmt::format("{:.1f}", *execution->ms),
                               percent(overhead_of(*execution->ms, simulation.in_core_ms)),
                               format_bytes(execution->peak)});
  cells.resize(columns, "-");
  return cells;
}

void add_plan(const Simulation& simulation, const Plan& plan, Json& json) {
  const ClassTotals totals = totals_of(plan);
  json["time_ms"] = plan.predicted_ms;
  json["overhead"] = overhead_of(plan.predicted_ms, simulation.in_core_ms);
  json["peak_bytes"] = plan.peak;
  for (const MapClass of : all_classes)
    json[std::string(name(of))] = totals.maps[static_cast<std::size_t>(of)];
  json["bound_gap"] = or_null(bound_gap(plan));
  if (!plan.algorithms.empty()) json["algorithms"] = plan.algorithms.size();
  if (simulation.batch) json["images_per_s"] = images_per_s(simulation, plan.predicted_ms);
}

Json json_of(const Simulation& simulation, const Execution& execution) {
  Json json{{"ms", or_null(execution.ms)}, {"overhead", nullptr}};
  if (execution.ms) json["overhead"] = overhead_of(*execution.ms, simulation.in_core_ms);
  json["peak_bytes"] = execution.ms ? Json(execution.peak) : Json(nullptr);
  json["iterations"] = execution.iterations;
  if (!execution.why.empty()) json["why"] = execution.why;
  return json;
}

Json json_of(const Simulation& simulation, const SimulatedPolicy& row) {
  const Trial& trial = row.trial;
  Json json{{"policy", row.policy}, {"feasible", trial.plan.has_value()}};
  for (const char* key : {"time_ms", "overhead", "peak_bytes", "keep", "swap", "recompute"})
    json[key] = nullptr;
  json["plan_seconds"] = trial.seconds;
  json["bound_gap"] = nullptr;
  if (simulation.batch) json["images_per_s"] = nullptr;
  if (trial.plan)
    add_plan(simulation, *trial.plan, json);
  else
    json["why"] = row.makes_plans ? trial.why : fmt::format("{} makes no plan", row.policy);
  if (simulation.executed)
    json["executed"] = row.execution ? json_of(simulation, *row.execution) : Json(nullptr);
  return json;
}

// Why a row lacks figures, a line each.
std::string complaints_of(const SimulatedPolicy& row) {
  std::string lines;
  if (row.makes_plans && !row.trial.plan) lines += row.trial.why + "\n";
  if (row.execution && !row.execution->why.empty()) lines += row.execution->why + "\n";
  return lines;
}

}  // namespace

Result<SimulatedPolicy> plan_policy(const SimulationInput& input, const std::string& policy) {
  auto trial = attempt(input, policy);
  if (!trial) return trial.error();
  SimulatedPolicy row;
  row.policy = policy;
  row.trial = std::move(*trial);
  return row;
}

std::string simulation_table(const Simulation& simulation) {
  std::vector<std::vector<std::string>> rows{head_of(simulation)};
  std::string complaints;
  for (const SimulatedPolicy& row : simulation.rows) {
    rows.push_back(row_of(simulation, row));
    complaints += complaints_of(row);
  }
  return fmt::format("in-core {:.1f} ms per iteration, {:.1f} from the first op to the last\n",
                     simulation.in_core_ms, simulation.in_core_ops_ms) +
         text_table(rows, {0}) + complaints;
}

std::string simulation_json(const Simulation& simulation) {
  Json json{{"incore_ms", simulation.in_core_ms}, {"incore_ops_ms", simulation.in_core_ops_ms}};
  if (simulation.batch) json["batch"] = *simulation.batch;
  json["rows"] = Json::array();
  for (const SimulatedPolicy& row : simulation.rows) json["rows"].push_back(json_of(simulation, row));
  return json.dump(2) + "\n";
}

}  // namespace pooch::tools
