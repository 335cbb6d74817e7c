#include "simulate_command.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "core/profile.h"
#include "device_choice.h"
#include "install.h"
#include "plan_command.h"
#include "policy/planner.h"
#include "run_command.h"
#include "simulate_execute.h"
#include "simulate_rows.h"
#include "simulate_run.h"
#include "text_file.h"
#include "traced_iterations.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

// More than any network needs; a device that only keeps time has as much as it is told.
constexpr std::uint64_t plenty_of_device = std::uint64_t{4} << 40, plenty = std::uint64_t{3} << 40;

struct Watched {
  Profile profile;
  std::string output;
  int code = 0;                           // the command's
  Refusal failure{0, ""};                 // code 0: there is a profile
  std::optional<TemporaryFolder> folder;  // with the timeline

  bool measured() const { return !profile.phases.empty() && profile.phases.front().measured > 0; }
};

RunOptions run_options(const SimulateOptions& options, const SoftDevice& device, const std::string& memory) {
  RunOptions run;
  run.device = "soft:" + device.to_string();
  run.memory = memory;
  run.command = options.command;
  return run;
}

std::string timeline_in(const TemporaryFolder& folder) {
  return (folder.path() / "trace.json").string();
}

// The command under a policy that needs no plan, with its output, its profile and, where it is wanted, its
// timeline kept.
Watched watch(RunOptions run, const char* policy, bool timeline) {
  Watched watched;
  auto folder = TemporaryFolder::make();
  if (!folder) {
    watched.failure = {exit_failed, folder.error().message};
    return watched;
  }
  run.policy = policy;
  Variables variables;
  if (timeline) variables.emplace_back("POOCH_TRACE", timeline_in(*folder));
  const auto code = run_into(folder->path(), run, std::move(variables));
  if (!code) {
    watched.failure = {exit_failed, code.error().message};
    return watched;
  }
  watched.code = *code;
  if (const auto output = read_text((folder->path() / "stdout").string())) watched.output = *output;
  const auto text = read_text((folder->path() / "profile.json").string());
  if (!text) {
    watched.failure = {watched.code, ""};
    if (watched.code == 0)
      watched.failure = {exit_failed, "the command left no profile: it used no memory of a GPU"};
    return watched;
  }
  auto profile = profile_from_json(*text);
  if (profile)
    watched.profile = std::move(*profile);
  else
    watched.failure = {exit_failed, "profile.json: " + profile.error().message};
  if (timeline) watched.folder.emplace(std::move(*folder));
  return watched;
}

// From begin to begin; where the command had too few iterations for that, from the first op to the last.
Result<double> in_core_ms(const Watched& in_core, const PhaseProfile& phase) {
  const auto iterations = traced_iterations(timeline_in(*in_core.folder), phase.id);
  if (!iterations) return Error{ErrorCode::internal, "the timeline: " + iterations.error().message};
  return median(settled_ms(*iterations)).value_or(phase.iteration_us / 1e3);
}

// Bytes per second of the model's link; nothing for a way that the profile has measurements of.
Status link_rates(const SoftDevice& device, const fs::path& softgpu_folder, SimulationInput& input) {
  const auto measured = [&](bool to_device) {
    for (const LinkSample& sample : input.profile.link)
      if (sample.to_device == to_device) return true;
    return false;
  };
  const auto machine = read_model(device, softgpu_folder);
  if (!machine) return machine.error();
  if (!measured(true)) input.link_in = machine->to_device;
  if (!measured(false)) input.link_out = machine->to_host;
  return Done{};
}

// The phase as it was with memory enough: of the same ops, else the main one.
const PhaseProfile& same_phase(const Profile& in_core, const PhaseProfile& phase) {
  for (const PhaseProfile& other : in_core.phases)
    if (other.id == phase.id) return other;
  return in_core.phases.front();
}

// Under demand mode the host waits for memory, which no plan lets it do: its gaps between ops and what it
// issues ahead are those of the run with memory enough.
void take_gaps(PhaseProfile& phase, const PhaseProfile& in_core) {
  if (phase.id != in_core.id || phase.ops.size() != in_core.ops.size()) return;
  for (std::size_t i = 0; i < phase.ops.size(); ++i) phase.ops[i].gap_us = in_core.ops[i].gap_us;
  if (phase.copies.size() != in_core.copies.size()) return;
  for (std::size_t i = 0; i < phase.copies.size(); ++i) phase.copies[i].lead_us = in_core.copies[i].lead_us;
}

Result<SoftDevice> read_device(const std::string& text, const fs::path& softgpu_folder) {
  const std::string whole = text == "real" || text.starts_with("soft:") ? text : "soft:" + text;
  auto device = parse_device(whole, softgpu_folder);
  if (!device) return device.error();
  if (!*device || (":" + whole + ":").find(":compute:") != std::string::npos)
    return Error{ErrorCode::invalid_argument,
                 fmt::format("'{}': accepted is a software GPU that keeps time, soft:MODEL[:timing]", text)};
  (*device)->options.timing = true;
  return **device;
}

constexpr const char* planless = "demand";

// What is wrong with --policy; nothing: it is a policy's name, or all.
std::optional<std::string> wrong_policy(const SimulateOptions& options) {
  if (options.policy == "all") return std::nullopt;
  if (options.policy == planless) {
    if (options.execute) return std::nullopt;
    return fmt::format("'{}': it makes no plan, and can only be carried out: with --execute", planless);
  }
  return refused_policy(options.policy, options.allow_numerics, options.execute ? ", demand, all" : ", all");
}

Result<Simulation> simulate(const SimulationInput& input, const SimulateOptions& options) {
  Simulation simulation;
  std::vector<policy::PolicyInfo> policies = policy::policies();
  if (options.allow_numerics)
    policies.insert(policies.end(), policy::numerics_policies().begin(), policy::numerics_policies().end());
  for (const policy::PolicyInfo& info : policies) {
    if (options.policy != "all" && options.policy != info.name) continue;
    auto row = plan_policy(input, std::string(info.name));
    if (!row) return row.error();
    simulation.rows.push_back(std::move(*row));
  }
  if (changes_numerics(simulation.rows.empty() ? "" : simulation.rows.back().policy))
    say_own_algorithms("simulate", simulation.rows.back().policy, input.profile, input.phase);
  if (options.execute && (options.policy == "all" || options.policy == planless)) {
    SimulatedPolicy row;
    row.policy = planless;
    row.makes_plans = false;
    simulation.rows.push_back(std::move(row));
  }
  return simulation;
}

}  // namespace

int simulate_command(const SimulateOptions& options) {
  const Install install = find_install();
  const auto device = read_device(options.device, install.softgpu_folder);
  if (!device) return complain("simulate", {exit_bad_usage, "--device " + device.error().message});
  if (const auto why = wrong_policy(options))
    return complain("simulate", {exit_bad_usage, "--policy " + *why});
  forget_settings_of_runs();
  const RunOptions run = run_options(options, *device, options.memory);
  Watched capped = watch(run, "demand", false);
  if (capped.failure.code != 0) return complain("simulate", capped.failure);
  SoftDevice large = *device;
  large.options.memory = plenty_of_device;
  const RunOptions roomy_run = run_options(options, large, std::to_string(plenty));
  Watched in_core = watch(roomy_run, "keep", true);
  if (in_core.failure.code != 0) return complain("simulate", in_core.failure);
  if (in_core.code != 0) return in_core.code;
  if (!in_core.measured())
    return complain("simulate",
                    {exit_failed, "the command had no iterations to measure: let it run eight or more"});
  if (capped.code != 0)
    say("pooch: simulate: under demand mode the command ended with {}; planned from {}\n", capped.code,
        capped.measured() ? "what it did until then" : "its run with memory enough");
  if (!capped.measured()) capped.profile.phases = in_core.profile.phases;

  in_core.profile.link = capped.profile.link;  // the same device, whichever run measured it
  PhaseProfile& phase = capped.profile.phases.front();
  const PhaseProfile& roomy = same_phase(in_core.profile, phase);
  take_gaps(phase, roomy);
  SimulationInput input{capped.profile, phase.id, {}, {}};
  if (const Status read = link_rates(*device, install.softgpu_folder, input); !read)
    return complain("simulate", {exit_failed, read.error().message});
  auto simulation = simulate(input, options);
  if (!simulation) return complain("simulate", {exit_failed, simulation.error().message});
  const auto ms = in_core_ms(in_core, roomy);
  if (!ms) return complain("simulate", {exit_failed, ms.error().message});
  simulation->in_core_ms = *ms;
  simulation->in_core_ops_ms = roomy.iteration_us / 1e3;
  if (phase.kind == "train") simulation->batch = batch_of(in_core.output);
  if (options.execute)
    if (const Status done = execute({run, phase.id}, *simulation); !done)
      return complain("simulate", {exit_failed, done.error().message});
  return print_text("simulate", options.json ? simulation_json(*simulation) : simulation_table(*simulation));
}

}  // namespace pooch::tools
