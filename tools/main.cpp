// The `pooch` program.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "compare_command.h"
#include "completion.h"
#include "core/nearest.h"
#include "doctor.h"
#include "effects_command.h"
#include "explain_command.h"
#include "fit_command.h"
#include "graph_command.h"
#include "path_command.h"
#include "plan_command.h"
#include "record_command.h"
#include "run_command.h"
#include "simulate_command.h"
#include "text_file.h"
#include "top_command.h"

namespace {

using pooch::tools::RunOptions;

void describe_run(CLI::App& run, RunOptions& options) {
  run.footer("The command follows --: pooch run --memory 16GiB -- python train.py");
  auto* memory = run.add_option("--memory", options.memory, "device memory the command may use (16GiB, 80%)");
  auto* host = run.add_option("--host-memory", options.host_memory, "page-locked host memory (64GiB, 80%)");
  auto* policy =
      run.add_option("--policy", options.policy,
                     "who decides what leaves the device: demand, " + pooch::tools::policy_names());
  run.add_option("--device", options.device,
                 "real, or soft:MODEL[:OPTION]..., as in soft:v100-pcie3:timing:memory=16GiB")
      ->capture_default_str();
  auto* summary = run.add_option("--summary", options.summary, "file for the summary as JSON");
  auto* log = run.add_option("--log", options.log, "error, warn, info or debug");
  run.add_option("--seed", options.seed, "of a software GPU's order of work");
  auto* without = run.add_flag("--no-pooch", options.without_pooch, "run on the chosen device without pooch");
  for (auto* option : {memory, host, policy, summary, log}) without->excludes(option);
}

void describe_record(CLI::App& record, RunOptions& options, std::string& output) {
  describe_run(record, options);
  record.footer("The command follows --: pooch record -o train.pooch -- python train.py");
  record.remove_option(record.get_option("--no-pooch"));
  record.add_option("-o,--output", output, "file for the calls, to be read by pooch graph")->required();
}

void describe_doctor(CLI::App& doctor, pooch::tools::DoctorOptions& options) {
  doctor.footer("The command to look at may follow --: pooch doctor -- ./train");
  doctor
      .add_option("--device", options.device,
                  "real, or soft:MODEL[:OPTION]..., as in soft:v100-pcie3:timing:memory=16GiB")
      ->capture_default_str();
  doctor.add_flag("--json", options.json, "findings as JSON");
  doctor.add_option("--probe", options.probe)->group("");                // for the child that it starts
  doctor.add_option("--host-handles", options.host_handles)->group("");  // for the library
}

void describe_top(CLI::App& top, pooch::tools::TopOptions& options) {
  top.add_option("processes", options.processes, "only these (all of this user's)")
      ->type_name("PID")
      ->check(CLI::Range(1, 1 << 22));
  top.add_option("--interval", options.interval_s, "seconds between two looks")
      ->check(CLI::Range(0.05, 3600.0))
      ->capture_default_str();
  top.add_flag("--once", options.once, "look once");
  top.add_flag("--json", options.json, "once, as JSON");
}

void describe_effects(CLI::App& effects, pooch::tools::EffectsOptions& options) {
  effects.add_option("files", options.files, "cubins, fat binaries, libraries or programs with device code")
      ->type_name("FILE");
  effects.add_option("--kernel", options.kernel, "only kernels with this in their names");
  effects.add_option("--arch", options.arch, "only code for this architecture (90 for sm_90)");
  effects.add_option("--sample", options.sample, "only as many, drawn at random");
  effects.add_option("--seed", options.seed, "of the draw")->capture_default_str();
  effects.add_flag("--json", options.json, "as JSON");
  effects.add_option("--nvdisasm", options.nvdisasm, "NVIDIA's disassembler (looked for)")
      ->check(CLI::ExistingFile);
  for (auto* const for_the_library : {effects.add_flag("--serve", options.server.serve),
                                      effects.add_option("--cache", options.server.cache),
                                      effects.add_option("--packages", options.server.packages)})
    for_the_library->group("");
}

void describe_graph(CLI::App& graph, pooch::tools::GraphOptions& options) {
  graph.add_option("profile", options.profile, "a profile.json, or a recording")
      ->type_name("PROFILE")
      ->required();
  graph.add_option("--phase", options.phase, "id of the phase to show (the one with the most device time)");
  auto* json = graph.add_flag("--json", options.json, "layers, maps and edges as JSON");
  auto* dot = graph.add_flag("--dot", options.dot, "a digraph for Graphviz")->excludes(json);
  graph.add_flag("--sites", options.sites, "where in the program each layer's ops are called")
      ->excludes(json)
      ->excludes(dot);
}

void describe_fit(CLI::App& fit, pooch::tools::FitOptions& options) {
  fit.footer(
      "The command follows --, and is ended once its iterations are known: pooch fit -- python train.py\n"
      "What it writes on stdout is not shown.");
  fit.add_option("profile", options.profile, "a profile.json of an earlier run, in place of a command")
      ->type_name("PROFILE");
  fit.add_option("--memory", options.memory, "show this cap (some shares of the need)")
      ->type_name("SIZE")
      ->allow_extra_args(false);
  fit.add_option("--host-memory", options.host_memory, "page-locked host memory (64GiB, 80%)");
  fit.add_option("--device", options.device,
                 "real, or soft:MODEL[:OPTION]..., as in soft:v100-pcie3:timing:memory=16GiB")
      ->capture_default_str();
  fit.add_option("--policy", options.policy, "who plans: " + pooch::tools::policy_names())
      ->capture_default_str();
  fit.add_option("--seconds", options.seconds, "that the command may take")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  fit.add_flag("--json", options.json, "as JSON");
}

constexpr const char* allows_numerics =
    "also policies that give convolutions other algorithms (vdnn-conv:p, …), which changes results";

void describe_plan(CLI::App& plan, pooch::tools::PlanOptions& options) {
  plan.add_option("profile", options.profile, "a profile.json")->type_name("PROFILE")->required();
  // tests/gpu/programs.py reads the names in this line of help.
  plan.add_option("--policy", options.policy, "who decides: " + pooch::tools::policy_names())
      ->capture_default_str();
  plan.add_option("--memory", options.memory, "device memory that the program may use (16GiB, 80%)")
      ->required();
  plan.add_option("--link-out", options.link_out, "bytes per second to the host (as measured)");
  plan.add_option("--link-in", options.link_in, "bytes per second to the device (as measured)");
  plan.add_option("--phase", options.phase, "id of the phase (the one with the most device time)");
  plan.add_option("--seed", options.seed, "of searches that draw numbers")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  plan.add_option("--effort", options.effort, "how many times as long to search as usual")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  plan.add_flag("--unplaced", options.unplaced, "without a layout: memory is mapped as maps move");
  plan.add_flag("--allow-numerics", options.allow_numerics, allows_numerics);
  plan.add_option("--room", options.room, "device memory for the plan's layout (as --memory)");
  plan.add_option("--beside", options.beside, "plans of other phases, which share the layout")
      ->type_name("PLAN");
  plan.add_option("--follow", options.follow, "lay this plan out, and make none")->type_name("PLAN");
  plan.add_option("-o,--output", options.output, "file for the plan")->required();
}

void describe_simulate(CLI::App& simulate, pooch::tools::SimulateOptions& options) {
  simulate.footer(
      "The command follows --: pooch simulate --device soft:v100-pcie3 --memory 16GiB -- train --iterations "
      "8 "
      "--json\nWhat it writes on stdout is not shown. It tells the images per iteration as \"batch\" in a "
      "line "
      "of JSON.");
  simulate.add_option("--device", options.device, "soft:MODEL[:timing][:memory=SIZE]")->required();
  simulate.add_option("--memory", options.memory, "device memory that the command may use (16GiB, 80%)")
      ->required();
  simulate.add_option("--policy", options.policy, "a policy's name, or all")->capture_default_str();
  simulate.add_flag("--execute", options.execute,
                    "carry each plan out as well, and demand mode: the command runs once more for each, and "
                    "needs 16 iterations");
  simulate.add_flag("--allow-numerics", options.allow_numerics, allows_numerics);
  simulate.add_flag("--json", options.json, "the rows as JSON");
}

using Words = std::vector<std::string>;

Words names_of(const std::vector<const CLI::App*>& commands) {
  Words names;
  for (const CLI::App* command : commands) names.push_back(command->get_name());
  return names;
}
Words options_of(const CLI::App& command) {
  Words names;
  for (const CLI::Option* option : command.get_options())
    if (!option->get_group().empty() && !option->get_lnames().empty())
      names.push_back("--" + option->get_lnames().front());
  return names;
}

std::string no_option(const CLI::App& command, const std::string& word) {
  const std::string name = command.get_parent() == nullptr ? "" : command.get_name() + ": ";
  const std::string meant = pooch::did_you_mean(word.substr(0, word.find('=')), options_of(command));
  const std::string help = command.get_parent() == nullptr ? "" : " " + command.get_name();
  return fmt::format("{}there is no option {}{}", name, word,
                     meant.empty() ? fmt::format("; pooch{} --help lists them", help) : meant);
}

// What is wrong with words that no option or argument takes.
std::string leftover(const CLI::App& app, const Words& words, bool has_command) {
  const auto chosen = app.get_subcommands();
  const std::string word = words.front();
  if (word.starts_with("-")) return no_option(chosen.empty() ? app : *chosen.front(), word);
  if (chosen.empty()) {
    const Words all = names_of(app.get_subcommands([](const CLI::App*) { return true; }));
    return fmt::format("'{}' is no command: accepted are {}{}", word, fmt::join(all, ", "),
                       pooch::did_you_mean(word, all));
  }
  const std::string name = chosen.front()->get_name();
  constexpr std::array with_commands{"run", "fit", "record", "simulate", "doctor"};
  if (std::find(with_commands.begin(), with_commands.end(), name) == with_commands.end())
    return fmt::format("{}: what is '{}'? pooch {} --help says what goes there", name, word, name);
  if (has_command)
    return fmt::format("{}: what is '{}'? Options come before --, the command after it", name, word);
  return fmt::format("{}: what is '{}'? A command goes after --: pooch {} -- {}", name, word, name,
                     fmt::join(words, " "));
}

// The commands that work on plans.
struct PlanTools {
  pooch::tools::PlanOptions plan_options;
  pooch::tools::SimulateOptions simulate_options;
  std::string explained, first, second;
  CLI::App *plan, *explain, *compare, *simulate;

  explicit PlanTools(CLI::App& app)
      : plan(app.add_subcommand("plan", "a plan from a profile")),
        explain(app.add_subcommand("explain", "what a plan does with every map, and why")),
        compare(app.add_subcommand("compare", "where two plans differ")),
        simulate(app.add_subcommand("simulate", "what each policy would make of a command, without a GPU")) {
    describe_plan(*plan, plan_options);
    explain->add_option("plan", explained, "a plan's file")->type_name("PLAN")->required();
    compare->add_option("a", first, "a plan's file")->type_name("A")->required();
    compare->add_option("b", second, "another one")->type_name("B")->required();
    describe_simulate(*simulate, simulate_options);
  }
  // The exit code, where one of them was asked for.
  std::optional<int> run(const std::vector<std::string>& command) {
    if (plan->parsed()) return pooch::tools::plan_command(plan_options);
    if (explain->parsed()) return pooch::tools::explain_command(explained);
    if (compare->parsed()) return pooch::tools::compare_command(first, second);
    if (!simulate->parsed() || command.empty()) return std::nullopt;
    simulate_options.command = command;
    return pooch::tools::simulate_command(simulate_options);
  }
};

}  // namespace

int main(int argc, char** argv) {
  // What follows "--" belongs to the command, whatever it looks like.
  const std::vector<std::string> all(argv + 1, argv + argc);
  const auto mark = std::find(all.begin(), all.end(), "--");
  RunOptions options;
  pooch::tools::DoctorOptions doctor_options;
  if (mark != all.end()) options.command.assign(mark + 1, all.end());
  doctor_options.command = options.command;

  CLI::App app{"pooch trains networks that need more GPU memory than there is.", "pooch"};
  app.set_version_flag("--version", "pooch " POOCH_VERSION);
  app.require_subcommand(1);
  CLI::App& run = *app.add_subcommand("run", "runs a command with pooch");
  describe_run(run, options);
  pooch::tools::FitOptions fit_options;
  fit_options.command = options.command;
  CLI::App& fit = *app.add_subcommand("fit", "does a command fit, and what would it take with less memory?");
  describe_fit(fit, fit_options);
  CLI::App& doctor = *app.add_subcommand("doctor", "can pooch do its work here? findings and their cures");
  describe_doctor(doctor, doctor_options);
  pooch::tools::TopOptions top_options;
  CLI::App& top = *app.add_subcommand("top", "what programs that run with pooch are doing now");
  describe_top(top, top_options);
  std::string recording;
  CLI::App& record = *app.add_subcommand("record", "runs a command with pooch and keeps its calls in a file");
  describe_record(record, options, recording);
  pooch::tools::GraphOptions graph_options;
  CLI::App& graph = *app.add_subcommand("graph", "the network that a profile or a recording holds");
  describe_graph(graph, graph_options);
  pooch::tools::EffectsOptions effects_options;
  CLI::App& effects = *app.add_subcommand("effects", "what kernels touch, read from their machine code");
  describe_effects(effects, effects_options);
  const CLI::App& path =
      *app.add_subcommand("path", "where libpooch.so is: LD_PRELOAD=$(pooch path) ./train");
  const CLI::App& completion = *app.add_subcommand("completion", "for bash: source <(pooch completion)");
  PlanTools plans(app);
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(mark), all.rend()));
  } catch (const CLI::Success& wanted) {  // help or version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    Words left = app.remaining(true);
    const bool names_nothing = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && left.empty();
    std::string why = error.what();
    // It takes the first word for a profile.
    if (!left.empty() && fit.parsed() && !fit_options.profile.empty())
      left.insert(left.begin(), fit_options.profile);
    if (!left.empty()) why = leftover(app, left, mark != all.end());
    if (names_nothing && app.get_subcommands().empty()) why = "no command: pooch --help lists them";
    pooch::tools::say("pooch: error: {}\n", why);
    return pooch::tools::exit_bad_usage;
  }
  if (fit.parsed()) return pooch::tools::fit_command(fit_options);
  if (doctor.parsed()) return pooch::tools::doctor_command(doctor_options);
  if (graph.parsed()) return pooch::tools::graph_command(graph_options);
  if (effects.parsed()) return pooch::tools::effects_command(effects_options);
  if (top.parsed()) return pooch::tools::top_command(top_options);
  if (completion.parsed()) return pooch::tools::print_text("completion", pooch::tools::bash_completion(app));
  if (path.parsed()) return pooch::tools::path_command();
  if (const auto code = plans.run(options.command)) return *code;
  if (options.command.empty()) {
    const std::string wanted = app.get_subcommands().front()->get_name();
    pooch::tools::say("pooch: error: {}: no command: it goes after --\n", wanted);
    return pooch::tools::exit_bad_usage;
  }
  if (record.parsed()) return pooch::tools::record_command({options, recording});
  return pooch::tools::run_command(options);
}
