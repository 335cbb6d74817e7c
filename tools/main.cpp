// The `pooch` program.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "doctor.h"
#include "run_command.h"

namespace {

using pooch::tools::RunOptions;

void describe_run(CLI::App& run, RunOptions& options) {
  run.footer("The command follows --: pooch run --memory 16GiB -- python train.py");
  auto* memory = run.add_option("--memory", options.memory, "device memory the command may use (16GiB, 80%)");
  auto* host = run.add_option("--host-memory", options.host_memory, "page-locked host memory (64GiB, 80%)");
  auto* policy =
      run.add_option("--policy", options.policy, "who decides what leaves the device: keep, demand");
  run.add_option("--device", options.device, "real, or soft:MODEL[:compute|timing][:memory=SIZE]")
      ->capture_default_str();
  auto* summary = run.add_option("--summary", options.summary, "file for the summary as JSON");
  auto* log = run.add_option("--log", options.log, "error, warn, info or debug");
  run.add_option("--seed", options.seed, "of a software GPU's order of work");
  auto* without = run.add_flag("--no-pooch", options.without_pooch, "run on the chosen device without pooch");
  for (auto* option : {memory, host, policy, summary, log}) without->excludes(option);
}

void describe_doctor(CLI::App& doctor, pooch::tools::DoctorOptions& options) {
  doctor.footer("The command to look at may follow --: pooch doctor -- ./train");
  doctor.add_option("--device", options.device, "real, or soft:MODEL[:compute|timing][:memory=SIZE]")
      ->capture_default_str();
  doctor.add_flag("--json", options.json, "findings as JSON");
  doctor.add_option("--probe", options.probe)->group("");  // for the child that it starts
}

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
  CLI::App& doctor = *app.add_subcommand("doctor", "can pooch do its work here? findings and their cures");
  describe_doctor(doctor, doctor_options);
  try {
    app.parse(std::vector<std::string>(std::make_reverse_iterator(mark), all.rend()));
  } catch (const CLI::Success& wanted) {  // help or version
    return app.exit(wanted);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "pooch: error: {}\n", error.what());
    return pooch::tools::exit_bad_usage;
  }
  if (doctor.parsed()) return pooch::tools::doctor_command(doctor_options);
  if (options.command.empty()) {
    fmt::print(stderr, "pooch: error: run: no command: it goes after --\n");
    return pooch::tools::exit_bad_usage;
  }
  return pooch::tools::run_command(options);
}
