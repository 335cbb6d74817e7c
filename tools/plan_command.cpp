#include "plan_command.h"

#include <fmt/format.h>

#include <algorithm>

#include <cmath>
#include <cstdio>
#include <tuple>

#include "core/bytes.h"
#include "plan_facts.h"
#include "policy/planner.h"
#include "run_command.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

Error refused(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

Result<double> rate(const char* option, double value) {
  if (value > 0 && std::isfinite(value)) return value;
  return refused(fmt::format("{} {}: accepted are rates above 0, in bytes per second", option, value));
}

// What can be judged without the profile.
Result<policy::PlanRequest> read_request(const PlanOptions& options) {
  policy::PlanRequest request;
  if (const auto why = unknown_policy(options.policy)) return refused("--policy " + *why);
  if (options.backing != name(Backing::alias) && options.backing != name(Backing::remap))
    return refused(fmt::format("--backing '{}': accepted are remap, alias", options.backing));
  request.backing = options.backing == name(Backing::alias) ? Backing::alias : Backing::remap;
  request.seed = options.seed;
  for (const auto& [option, given, wanted] : {std::tuple("--link-out", &options.link_out, &request.link_out),
                                              std::tuple("--link-in", &options.link_in, &request.link_in)}) {
    if (!*given) continue;
    const auto value = rate(option, **given);
    if (!value) return value.error();
    *wanted = *value;
  }
  return request;
}

Result<Profile> read_profile(const std::string& path, const std::string& phase) {
  const auto text = read_text(path);
  if (!text) return text.error();
  auto profile = profile_from_json(*text);
  if (!profile) return profile.error();
  if (profile->phases.empty()) return refused("it holds no phase: the program's ops had no period");
  std::string known;
  for (const PhaseProfile& each : profile->phases) {
    if (phase.empty() || each.id == phase) return profile;
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", each.id, each.kind);
  }
  return refused(fmt::format("--phase '{}': accepted are {}", phase, known));
}

Result<std::uint64_t> read_memory(const std::string& text, const Profile& profile) {
  const auto bytes = parse_bytes(text, profile.device_bytes);
  if (!bytes) return refused("--memory " + bytes.error().message);
  if (*bytes == 0) return refused(fmt::format("--memory '{}': accepted are sizes above 0", text));
  return bytes;
}

std::string in_a_line(const Plan& plan) {
  const ClassTotals totals = totals_of(plan);
  const auto gap = bound_gap(plan);
  return fmt::format(
      "{}: {:.1f} ms per iteration, {} over in-core{}; {} keep, {} swap, {} recompute; peak {} of {}\n",
      plan.policy, plan.predicted_ms, percent(overhead_of(plan.predicted_ms, plan.in_core_ms)),
      gap ? fmt::format(", {} over the bound", percent(*gap)) : "", totals.maps[0], totals.maps[1],
      totals.maps[2], format_bytes(plan.peak), format_bytes(plan.cap));
}

int complain(const std::string& message) {
  fmt::print(stderr, "pooch: error: plan: {}\n", message);
  return exit_bad_usage;
}

}  // namespace

std::string policy_names() {
  std::string names;
  for (const policy::PolicyInfo& info : policy::policies())
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

std::optional<std::string> unknown_policy(const std::string& name) {
  const auto& known = policy::policies();
  if (std::any_of(known.begin(), known.end(), [&](const auto& info) { return info.name == name; }))
    return std::nullopt;
  return fmt::format("'{}': accepted are {}", name, policy_names());
}

int plan_command(const PlanOptions& options) {
  auto request = read_request(options);
  if (!request) return complain(request.error().message);
  const auto profile = read_profile(options.profile, options.phase);
  if (!profile) return complain(fmt::format("{}: {}", options.profile, profile.error().message));
  const auto memory = read_memory(options.memory, *profile);
  if (!memory) return complain(memory.error().message);
  request->memory = *memory;

  const auto plan = policy::make_plan(*profile, options.phase, options.policy, *request);
  if (!plan) return complain(fmt::format("{}: {}", options.profile, plan.error().message));
  if (const Status written = write_text(options.output, to_json(*plan)); !written)
    return complain(fmt::format("-o '{}': {}", options.output, written.error().message));
  return print_text("plan", in_a_line(*plan));
}

}  // namespace pooch::tools
