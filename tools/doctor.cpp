#include "doctor.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "child.h"
#include "core/config.h"
#include "device_choice.h"
#include "doctor_findings.h"
#include "environment.h"
#include "install.h"
#include "run_command.h"
#include "temporary_folder.h"
#include "text_file.h"
#include "tools/effects/disassembler.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

const char* name(Level level) {
  switch (level) {
    case Level::ok:
      return "ok";
    case Level::warning:
      return "warning";
    case Level::problem:
      break;
  }
  return "problem";
}

Finding look_at_settings() {
  const auto config = read_config([](const char* variable) -> const char* { return std::getenv(variable); });
  const auto unknown = mistyped_variable(environ);
  if (config && unknown) return {"settings", Level::problem, *unknown, "correct its name, or unset it"};
  if (config) return {"settings", Level::ok, "the POOCH_ variables are understood", ""};
  return {"settings", Level::problem, config.error().message, "correct the variable, or unset it"};
}

Finding look_at_library(const Install& install) {
  const auto path = library_to_preload(install);
  if (path) return {"libpooch.so", Level::ok, *path, ""};
  return {"libpooch.so", Level::problem, path.error().message,
          install.library ? "move pooch to another folder"
                          : "install pooch as a whole, or run it from its build folder"};
}

Finding look_at_disassembler() {
  const auto found = effects::find_disassembler();
  if (found) return {"nvdisasm", Level::ok, found->string(), ""};
  return {"nvdisasm", Level::warning, "not found: kernels without a rule for their name stay unknown",
          effects::disassembler_cure};
}

// Runs this program again as any program would run, and reads what it wrote.
Findings run_probe(Environment environment, bool software_device, bool preloaded) {
  const auto failed = [](const std::string& why) {
    return Findings{{"self-test", Level::problem, why, "run pooch doctor with POOCH_LOG=debug to see more"}};
  };
  std::error_code error;
  const auto folder = TemporaryFolder::make();
  if (!folder)
    return {{"self-test", Level::problem, folder.error().message, "set TMPDIR to a folder of yours"}};
  const std::string file = folder->path() / "answers";
  // Settings have a finding of their own.
  for (const char* variable : {"POOCH_MEMORY_CAP", "POOCH_HOST_MEMORY", "POOCH_POLICY", "POOCH_REPORT"})
    environment.set(variable, "");
  const std::string self = fs::read_symlink("/proc/self/exe", error).string();
  const auto end = run_child({self, "doctor", "--probe", file}, environment.entries());
  if (!end) return failed(end.error().message);
  const auto text = read_text(file);
  if (!text) return failed(fmt::format("a child with libpooch.so ended with {}", end->exit_code()));
  const auto answers = answers_from_json(*text);
  if (!answers) return failed("what a child with libpooch.so answered: " + answers.error().message);
  Findings all = judge_probe(*answers, software_device, preloaded);
  if (end->exit_code() != 0)
    all.push_back(
        failed(fmt::format("a child that called the driver ended with {}", end->exit_code())).front());
  return all;
}

void print_text(const Findings& all) {
  for (const Finding& one : all) {
    fmt::print("{:<8} {}: {}\n", name(one.level), one.name, one.text);
    if (!one.cure.empty()) fmt::print("{:<8} cure: {}\n", "", one.cure);
  }
}

void print_json(const Findings& all, std::size_t problems) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& one : all)
    list.push_back({{"name", one.name}, {"level", name(one.level)}, {"text", one.text}, {"cure", one.cure}});
  const nlohmann::ordered_json whole = {{"schema", 1}, {"problems", problems}, {"findings", list}};
  fmt::print("{}\n", whole.dump(2));
}

}  // namespace

int doctor_command(const DoctorOptions& options) {
  if (!options.probe.empty()) return probe(options.probe);
  if (!options.host_handles.empty()) try_host_handles(options.host_handles);
  const Install install = find_install();
  const auto device = parse_device(options.device, install.softgpu_folder);
  if (!device) {
    say("pooch: error: --device {}\n", device.error().message);
    return exit_bad_usage;
  }
  const bool software = device->has_value();
  Environment environment = Environment::current();
  if (software) use_soft_device(**device, install.softgpu_folder, environment);
  Findings all{look_at_settings(), look_at_library(install)};
  const bool preloaded = all.back().level == Level::ok;
  if (preloaded) environment.preload(install.library->string());
  const auto append = [&all](Findings&& more) {
    for (Finding& one : more) all.push_back(std::move(one));
  };
  append(run_probe(std::move(environment), software, preloaded));
  append(look_at_limits(software));
  all.push_back(look_at_disassembler());
  if (!options.command.empty()) append(look_at_command(options.command));

  const auto problems = static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const Finding& one) { return one.level == Level::problem; }));
  if (options.json) {
    print_json(all, problems);
  } else {
    print_text(all);
  }
  return problems == 0 ? 0 : 1;
}

}  // namespace pooch::tools
