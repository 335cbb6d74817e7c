#include "plan_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <tuple>

#include "core/bytes.h"
#include "placed_plan.h"
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
  if (const auto why = refused_policy(options.policy, options.allow_numerics))
    return refused("--policy " + *why);
  request.allow_numerics = options.allow_numerics;
  request.placed = !options.unplaced;
  request.seed = options.seed;
  request.effort = options.effort;
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

Result<std::uint64_t> read_memory(const char* option, const std::string& text, const Profile& profile) {
  const auto bytes = parse_bytes(text, profile.device_bytes);
  if (!bytes) return refused(fmt::format("{} {}", option, bytes.error().message));
  if (*bytes == 0) return refused(fmt::format("{} '{}': accepted are sizes above 0", option, text));
  return bytes;
}

Result<Plan> read_plan(const char* option, const std::string& path) {
  const auto text = read_text(path);
  auto plan = text ? plan_from_json(*text) : Result<Plan>(text.error());
  if (!plan) return refused(fmt::format("{} '{}': {}", option, path, plan.error().message));
  return plan;
}

// The plan as the options ask for it. Error: the line to print.
Result<Plan> make_it(const PlanOptions& options, const Profile& profile, policy::PlanRequest plan) {
  const auto memory = read_memory("--memory", options.memory, profile);
  if (!memory) return memory.error();
  plan.memory = *memory;
  PlacedRequest request{options.phase, options.policy, plan, 0, {}, std::nullopt};
  if (!options.room.empty()) {
    const auto room = read_memory("--room", options.room, profile);
    if (!room) return room.error();
    request.room = *room;
  }
  for (const std::string& path : options.beside) {
    auto other = read_plan("--beside", path);
    if (!other) return other.error();
    request.beside.push_back(std::move(*other));
  }
  if (!options.follow.empty()) {
    auto followed = read_plan("--follow", options.follow);
    if (!followed) return followed.error();
    request.follow = std::move(*followed);
  }
  auto made = make_placed_plan(profile, request);
  if (!made) return refused(fmt::format("{}: {}", options.profile, made.error().message));
  return made;
}

std::string in_a_line(const Plan& plan) {
  const ClassTotals totals = totals_of(plan);
  const auto gap = bound_gap(plan);
  const std::string algorithms =
      plan.algorithms.empty()
          ? ""
          : fmt::format("; {} convolutions with another algorithm", plan.algorithms.size());
  return fmt::format(
      "{}: {:.1f} ms per iteration, {} over in-core{}; {} keep, {} swap, {} recompute{}; peak {} of {}\n",
      plan.policy, plan.predicted_ms, percent(overhead_of(plan.predicted_ms, plan.in_core_ms)),
      gap ? fmt::format(", {} over the bound", percent(*gap)) : "", totals.maps[0], totals.maps[1],
      totals.maps[2], algorithms, format_bytes(plan.peak), format_bytes(plan.cap));
}

using Policies = std::vector<policy::PolicyInfo>;

bool is_among(const Policies& policies, const std::string& name) {
  return std::any_of(policies.begin(), policies.end(), [&](const auto& info) { return info.name == name; });
}

std::string names_of(const Policies& policies) {
  std::string names;
  for (const policy::PolicyInfo& info : policies)
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

}  // namespace

std::string policy_names() {
  return names_of(policy::policies());
}

bool changes_numerics(const std::string& policy) {
  return is_among(policy::numerics_policies(), policy);
}

std::optional<std::string> refused_policy(const std::string& name, bool allow_numerics,
                                          const char* also_accepted) {
  if (changes_numerics(name) && !allow_numerics)
    return fmt::format(
        "'{}': it gives convolutions other algorithms, and results would change: only with --allow-numerics",
        name);
  if (changes_numerics(name) || is_among(policy::policies(), name)) return std::nullopt;
  return fmt::format("'{}': accepted are {}{}; with --allow-numerics {}", name, policy_names(), also_accepted,
                     names_of(policy::numerics_policies()));
}

void say_own_algorithms(const char* command, const std::string& policy, const Profile& profile,
                        const std::string& phase) {
  for (const PhaseProfile& each : profile.phases) {
    if (!phase.empty() && each.id != phase) continue;
    if (!policy::has_other_algorithms(profile, each))
      say("pooch: {}: {}: the program tried no algorithms: convolutions keep its own\n", command, policy);
    return;
  }
}

int plan_command(const PlanOptions& options) {
  const auto request = read_request(options);
  if (!request) return complain("plan", {exit_bad_usage, request.error().message});
  const auto profile = read_profile(options.profile, options.phase);
  if (!profile)
    return complain("plan",
                    {exit_bad_usage, fmt::format("{}: {}", options.profile, profile.error().message)});
  const auto plan = make_it(options, *profile, *request);
  if (!plan) return complain("plan", {exit_bad_usage, plan.error().message});
  if (const Status written = write_text(options.output, to_json(*plan)); !written)
    return complain("plan",
                    {exit_bad_usage, fmt::format("-o '{}': {}", options.output, written.error().message)});
  if (changes_numerics(options.policy)) say_own_algorithms("plan", options.policy, *profile, options.phase);
  if (!is_stdout(options.output)) return print_text("plan", in_a_line(*plan));
  say_text(in_a_line(*plan));  // the plan itself is on stdout
  return 0;
}

}  // namespace pooch::tools
