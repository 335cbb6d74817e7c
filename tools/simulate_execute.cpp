#include "simulate_execute.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

#include "core/config.h"
#include "core/summary.h"
#include "plan_command.h"
#include "simulate_run.h"
#include "text_file.h"
#include "traced_iterations.h"

namespace pooch::tools {
namespace {

// Under a plan the first iterations still clear away what ran before, and may be in another layout.
constexpr std::size_t settling = 2, measured_least = 3;

// In order.
std::vector<double> planned_ms(const std::vector<TracedIteration>& iterations) {
  std::vector<double> ms;
  for (const TracedIteration& each : iterations)
    if (each.planned) ms.push_back(each.ms);
  return ms;
}

// Whether there was no time for more, or later iterations did not follow the plan.
bool ended_early(const std::vector<TracedIteration>& iterations) {
  const auto first =
      std::find_if(iterations.begin(), iterations.end(), [](const auto& i) { return i.planned; });
  if (first == iterations.end()) return iterations.size() < usual_lead;
  return std::all_of(first, iterations.end(), [](const auto& i) { return i.planned; });
}

Result<Execution> measure(const std::filesystem::path& folder, const std::string& phase,
                          const std::string& policy) {
  Execution execution;
  const bool planned = follows_plans(policy);
  const auto iterations = traced_iterations((folder / "trace.json").string(), phase);
  if (!iterations) return Error{ErrorCode::internal, "the timeline: " + iterations.error().message};
  const auto text = read_text((folder / "summary.json").string());
  if (!text) return Error{ErrorCode::internal, "summary.json: " + text.error().message};
  const auto summary = summary_from_json(*text);
  if (!summary) return summary.error();
  execution.peak = summary->peak_device_bytes;

  std::vector<double> ms = planned ? planned_ms(*iterations) : settled_ms(*iterations);
  // The last has no end in the timeline.
  const std::size_t seen = planned ? ms.size() : iterations->size();
  if (planned) ms.erase(ms.begin(), ms.begin() + static_cast<std::ptrdiff_t>(std::min(settling, ms.size())));
  execution.iterations = ms.size();
  if (execution.iterations >= measured_least) {
    execution.ms = median(std::move(ms));
    return execution;
  }
  const std::size_t wanted = settling + measured_least + 1, had = seen == 0 ? 0 : seen + 1;
  if (!planned) {
    execution.why = fmt::format("{}: {} iterations were seen, and {} are wanted", policy, had, wanted);
  } else if (ended_early(*iterations)) {
    return Error{
        ErrorCode::invalid_argument,
        fmt::format("--execute: {} of the command's iterations followed a plan ({}), and {} must: let "
                    "it run {} more",
                    had, policy, wanted, wanted - had)};
  } else {
    execution.why =
        fmt::format("{}: {} of {} iterations followed the plan", policy, seen, iterations->size());
  }
  return execution;
}

Result<Execution> carry_out(RunOptions command, const std::string& phase, const std::string& policy) {
  const auto folder = TemporaryFolder::make();
  if (!folder) return folder.error();
  say("pooch: simulate: carried out: {} ({})\n", policy, command.device);
  command.policy = policy;
  const auto code = run_into(folder->path(), command,
                             {{"POOCH_TRACE", (folder->path() / "trace.json").string()},
                              {"POOCH_CACHE", (folder->path() / "cache").string()},
                              {"POOCH_WAIT_FOR_PLANS", "1"}});
  if (!code) return code.error();
  if (*code == 0) return measure(folder->path(), phase, policy);
  Execution failed;
  failed.why = fmt::format("{}: the command ended with {}", policy, *code);
  return failed;
}

}  // namespace

bool follows_plans(const std::string& policy) {
  const auto known = parse_policy(policy);
  return known && is_planned(*known);
}

Status execute(const ExecuteRequest& request, Simulation& simulation) {
  simulation.executed = true;
  for (SimulatedPolicy& row : simulation.rows) {
    if (row.makes_plans && (!row.trial.plan || changes_numerics(row.policy))) continue;
    auto execution = carry_out(request.capped, request.phase, row.policy);
    if (!execution) return execution.error();
    row.execution = std::move(*execution);
  }
  return Done{};
}

}  // namespace pooch::tools
