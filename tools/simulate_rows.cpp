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

Result<Trial> attempt(const SimulationInput& input, const std::string& policy, Backing backing) {
  policy::PlanRequest request{input.profile.cap_bytes, input.link_out, input.link_in, backing};
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

std::optional<double> ms_of(const Trial& trial) {
  if (!trial.plan) return std::nullopt;
  return trial.plan->predicted_ms;
}

std::string ms_text(const std::optional<double>& ms) {
  return ms ? fmt::format("{:.1f}", *ms) : "-";
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
  for (const char* cell : {"peak", "keep", "swap", "recompute", "remap ms", "alias ms", "plan s", "gap"})
    head.push_back(cell);
  if (simulation.executed)
    for (const char* cell : {"actual ms", "actual", "actual peak", "actual remap", "actual alias"})
      head.push_back(cell);
  return head;
}

void add_plan(const Simulation& simulation, const SimulatedPolicy& row, std::vector<std::string>& cells) {
  const Trial& best = row.best();
  const Plan& plan = *best.plan;
  cells.insert(cells.end(), {fmt::format("{:.1f}", plan.predicted_ms),
                             percent(overhead_of(plan.predicted_ms, simulation.in_core_ms))});
  if (simulation.batch) cells.push_back(fmt::format("{:.1f}", images_per_s(simulation, plan.predicted_ms)));
  cells.push_back(format_bytes(plan.peak));
  for (const std::size_t count : totals_of(plan).maps) cells.push_back(fmt::format("{}", count));
  cells.push_back(ms_text(ms_of(row.of(Backing::remap))));
  cells.push_back(ms_text(ms_of(row.of(Backing::alias))));
  const auto gap = bound_gap(plan);
  cells.insert(cells.end(), {fmt::format("{:.2f}", best.seconds), gap ? percent(*gap) : "-"});
}

// What is not known stays "-".
std::vector<std::string> row_of(const Simulation& simulation, const SimulatedPolicy& row) {
  constexpr std::size_t of_executions = 5;
  const std::size_t columns = head_of(simulation).size();
  std::vector<std::string> cells{row.policy};
  if (row.best().plan) add_plan(simulation, row, cells);
  const std::size_t of_plans = columns - (simulation.executed ? of_executions : 0);
  cells.resize(of_plans, "-");
  if (!row.makes_plans) {
    cells[1] = "no plan";
  } else if (!row.best().plan) {
    cells[1] = "does not fit";
    cells[of_plans - 2] = fmt::format("{:.2f}", row.best().seconds);
  }
  if (const Execution* const best = row.fastest()) {
    cells.insert(cells.end(), {ms_text(best->ms), percent(overhead_of(*best->ms, simulation.in_core_ms)),
                               format_bytes(best->peak)});
    for (const auto& each : row.executions) cells.push_back(each ? ms_text(each->ms) : "-");
  }
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
  json["backing"] = name(plan.backing);
}

Json json_of(const Simulation& simulation, const Execution& execution) {
  Json json{{"ms", or_null(execution.ms)}, {"overhead", nullptr}};
  if (execution.ms) json["overhead"] = overhead_of(*execution.ms, simulation.in_core_ms);
  json["peak_bytes"] = execution.ms ? Json(execution.peak) : Json(nullptr);
  json["iterations"] = execution.iterations;
  if (!execution.why.empty()) json["why"] = execution.why;
  return json;
}

void add_executions(const Simulation& simulation, const SimulatedPolicy& row, Json& json) {
  const Execution* const best = row.fastest();
  const Json facts = best != nullptr ? json_of(simulation, *best) : Json::object();
  for (const char* key : {"ms", "overhead", "peak_bytes"})
    json["actual_" + std::string(key)] = facts.value(key, Json(nullptr));
  json["executed"] = Json::object();
  for (const Backing backing : {Backing::remap, Backing::alias}) {
    const auto& execution = row.execution(backing);
    json["executed"][std::string(name(backing))] =
        execution ? json_of(simulation, *execution) : Json(nullptr);
  }
}

Json json_of(const Simulation& simulation, const SimulatedPolicy& row) {
  const Trial& best = row.best();
  Json json{{"policy", row.policy}, {"feasible", best.plan.has_value()}};
  for (const char* key : {"time_ms", "overhead", "peak_bytes", "keep", "swap", "recompute"})
    json[key] = nullptr;
  json["plan_seconds"] = best.seconds;
  json["bound_gap"] = nullptr;
  if (simulation.batch) json["images_per_s"] = nullptr;
  json["backing"] = nullptr;
  json["remap_ms"] = or_null(ms_of(row.of(Backing::remap)));
  json["alias_ms"] = or_null(ms_of(row.of(Backing::alias)));
  if (best.plan)
    add_plan(simulation, *best.plan, json);
  else
    json["why"] = row.makes_plans ? best.why : fmt::format("{} makes no plan", row.policy);
  if (simulation.executed) add_executions(simulation, row, json);
  return json;
}

// Why a row lacks figures, a line each.
std::string complaints_of(const SimulatedPolicy& row) {
  std::string lines;
  if (row.makes_plans && !row.best().plan) lines += row.best().why + "\n";
  for (const auto& execution : row.executions)
    if (execution && !execution->why.empty()) lines += execution->why + "\n";
  return lines;
}

}  // namespace

const Trial& SimulatedPolicy::best() const {
  const auto& [first, second] = trials;
  if (!second.plan) return first;
  return first.plan && first.plan->predicted_ms <= second.plan->predicted_ms ? first : second;
}

const Execution* SimulatedPolicy::fastest() const {
  const Execution* best = nullptr;
  for (const auto& each : executions)
    if (each && each->ms && (best == nullptr || *each->ms < *best->ms)) best = &*each;
  return best;
}

Result<SimulatedPolicy> plan_policy(const SimulationInput& input, const std::string& policy) {
  SimulatedPolicy row;
  row.policy = policy;
  for (const Backing backing : {Backing::remap, Backing::alias}) {
    auto trial = attempt(input, policy, backing);
    if (!trial) return trial.error();
    row.trials[static_cast<std::size_t>(backing)] = std::move(*trial);
  }
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
