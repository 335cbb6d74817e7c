#include "run_command.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "child.h"
#include "core/config.h"
#include "core/log.h"
#include "core/result.h"
#include "cuda_folders.h"
#include "device_choice.h"
#include "doctor_findings.h"
#include "environment.h"
#include "install.h"
#include "report.h"
#include "temporary_folder.h"
#include "text_file.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

// One option and the variable that carries it; the library's own reader judges the value.
struct Setting {
  const char* option;
  const char* variable;
  const std::optional<std::string>& value;
};

std::optional<Refusal> check_setting(const Setting& setting) {
  if (!setting.value) return {};
  const auto config = read_config([&](const char* name) -> const char* {
    return std::string_view(name) == setting.variable ? setting.value->c_str() : nullptr;
  });
  if (config) return {};
  std::string_view why = config.error().message;
  const std::string named = fmt::format("{}: ", setting.variable);
  if (why.starts_with(named)) why.remove_prefix(named.size());
  return Refusal{exit_bad_usage, fmt::format("{} {}", setting.option, why)};
}

std::optional<Refusal> check_inherited() {
  if (const auto unknown = mistyped_variable(environ)) return Refusal{exit_bad_usage, *unknown};
  const auto config = read_config([](const char* name) -> const char* { return std::getenv(name); });
  if (config) return {};
  return Refusal{exit_bad_usage, config.error().message};
}

bool driver_loads() {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (driver != nullptr) dlclose(driver);
  return driver != nullptr;
}

// In timing mode the machine is the model's, not this one: so is its host memory. The user's own word goes
// first.
std::optional<Refusal> host_memory_of_model(const SoftDevice& device, const Install& install,
                                            Environment& environment) {
  const std::string* chosen = environment.find("POOCH_HOST_MEMORY");
  if (!device.options.timing || (chosen != nullptr && !chosen->empty())) return {};
  const auto machine = read_model(device, install.softgpu_folder);
  if (!machine) return Refusal{exit_failed, machine.error().message};
  environment.set("POOCH_HOST_MEMORY", std::to_string(machine->host_bytes / 5 * 4));
  return {};
}

std::optional<Refusal> choose_device(const RunOptions& options, const Install& install,
                                     Environment& environment) {
  const auto device = parse_device(options.device, install.softgpu_folder);
  if (!device) return Refusal{exit_bad_usage, "--device " + device.error().message};
  if (*device) {
    if (const Status fit = check_preload(install.softgpu_folder.string()); !fit)
      return Refusal{exit_failed, fit.error().message};
    use_soft_device(**device, install.softgpu_folder, environment);
    if (options.seed) environment.set("SOFTGPU_SEED", std::to_string(*options.seed));
    // Its OpenMP threads wait between kernels; spinning there takes the cores from everybody else.
    if (environment.find("OMP_WAIT_POLICY") == nullptr) environment.set("OMP_WAIT_POLICY", "passive");
    return host_memory_of_model(**device, install, environment);
  }
  if (options.seed) return Refusal{exit_bad_usage, "--seed: only a software GPU (--device soft:…) takes one"};
  if (driver_loads()) {
    for (const fs::path& folder :
         folders_of_missing({"libcudart.so.13", "libcublas.so.13", "libcudnn.so.9", "libcupti.so.13"}))
      environment.put_last("LD_LIBRARY_PATH", folder.string());
    return {};
  }
  return Refusal{
      exit_failed,
      "no CUDA driver (libcuda.so.1) found; without a GPU use --device soft:v100-pcie3, a software one"};
}

// The user's folder for the library's summary, without an earlier run's, which must not be taken for this
// one's.
fs::path cleared(const std::string& chosen) {
  std::error_code error;
  for (const auto& [process, summary] : summaries_in(chosen)) fs::remove(summary, error);
  return chosen;
}

// The child's end as an exit code, after a line where it never started; 126 and 127 as in a shell.
int finish(const Result<ChildEnd>& end) {
  if (end) return end->exit_code();
  const Error& error = end.error();
  if (error.code != ErrorCode::invalid_argument) return complain("", {exit_failed, error.message});
  return complain("", {error.vendor_status == ENOENT ? exit_not_found : exit_not_executable, error.message});
}

}  // namespace

int complain(std::string_view command, const Refusal& refusal) {
  if (!refusal.message.empty())
    say("pooch: error: {}{}{}\n", command, command.empty() ? "" : ": ", log::printable(refusal.message));
  return refusal.code;
}

// What the program is, as far as that keeps pooch out of it: itself, not what it starts.
void warn_of_program(const std::string& program) {
  for (const Finding& finding : look_at_program(program))
    if (finding.level == Level::problem)
      say("pooch: warning: {}; pooch works only in programs that it starts\n", finding.text);
}

// What a shell would say of a program that is not there, before anything is started.
std::optional<Refusal> check_program(const std::string& program) {
  if (is_there(program)) return {};
  const bool there = access(program.c_str(), F_OK) == 0 && program.find('/') != std::string::npos;
  return Refusal{there ? exit_not_executable : exit_not_found,
                 fmt::format("'{}' cannot be run: {}", program, strerror(there ? EACCES : ENOENT))};
}

// The nearest folder above that is there.
fs::path folder_above(fs::path at) {
  std::error_code error;
  while (!fs::exists(at, error) && at.has_relative_path()) at = at.parent_path();
  return at;
}

// Why nothing can be written there; empty: something can. A folder is made where there is none; a file comes
// to lie where it is wanted once it is whole, but a pipe or a device is written to.
std::string unwritable(const char* chosen, bool wants_folder) {
  std::error_code error;
  fs::path at = fs::absolute(chosen, error);
  if (wants_folder) {
    at = folder_above(at);
    if (!fs::is_directory(at, error)) return at.string() + " is no folder";
  } else {
    if (fs::is_directory(at, error)) return "it is a folder";
    if (!fs::exists(at, error) || fs::is_regular_file(at, error)) at = at.parent_path();
  }
  return access(at.c_str(), W_OK) == 0 ? "" : strerror(errno);
}

// Outputs that are wanted and cannot be written.
std::optional<Refusal> check_outputs() {
  for (const char* variable : {"POOCH_REPORT", "POOCH_SUMMARY", "POOCH_TRACE", "POOCH_RECORD"}) {
    const char* const chosen = std::getenv(variable);
    if (chosen == nullptr || *chosen == '\0') continue;
    const std::string_view name(variable);
    const std::string why = unwritable(chosen, name == "POOCH_REPORT" || name == "POOCH_SUMMARY");
    if (!why.empty())
      return Refusal{exit_bad_usage, fmt::format("{}: '{}' cannot be written: {}", variable, chosen, why)};
  }
  return {};
}

int run_command(const RunOptions& options) {
  const Setting settings[] = {{"--memory", "POOCH_MEMORY_CAP", options.memory},
                              {"--host-memory", "POOCH_HOST_MEMORY", options.host_memory},
                              {"--policy", "POOCH_POLICY", options.policy},
                              {"--log", "POOCH_LOG", options.log}};
  for (const Setting& setting : settings) {
    if (const auto refusal = check_setting(setting)) return complain("", *refusal);
  }
  if (const auto refusal = check_inherited()) return complain("", *refusal);

  if (const auto refusal = check_program(options.command.front())) return complain("", *refusal);
  if (!options.without_pooch)
    if (const auto refusal = check_outputs()) return complain("", *refusal);
  const Install install = find_install();
  Environment environment = Environment::current();
  if (const auto refusal = choose_device(options, install, environment)) return complain("", *refusal);
  if (options.without_pooch) return finish(run_child(options.command, environment.entries()));

  const auto library = library_to_preload(install);
  if (!library) return complain("", {exit_failed, library.error().message});
  environment.preload(*library);
  for (const Setting& setting : settings) {
    if (setting.value) environment.set(setting.variable, *setting.value);
  }
  warn_of_program(options.command.front());
  SummaryFile copy(options.summary);
  if (!copy.good())
    return complain("", {exit_bad_usage, fmt::format("--summary '{}': cannot be written", *options.summary)});
  const std::string* chosen = nullptr;
  for (const char* variable : {"POOCH_SUMMARY", "POOCH_REPORT"})
    if (const std::string* named = environment.find(variable); named != nullptr && !named->empty())
      chosen = named;
  std::optional<TemporaryFolder> own;
  if (chosen == nullptr) {
    auto made = TemporaryFolder::make();
    if (!made) return complain("", {exit_failed, made.error().message});
    own.emplace(std::move(*made));
  }
  const fs::path folder = own ? own->path() : cleared(*chosen);
  environment.set("POOCH_SUMMARY", folder.string());

  const auto end = run_child(options.command, environment.entries(), options.enough);
  if (end && end->enough) return 0;
  const int code = finish(end);
  if (options.enough) return code;
  if (end && !report_run(folder, *end, copy) && code == 0) return exit_failed;
  return code;
}

}  // namespace pooch::tools
