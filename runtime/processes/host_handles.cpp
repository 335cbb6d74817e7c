#include "runtime/processes/host_handles.h"

#include <fmt/core.h>

#include <chrono>
#include <string_view>

#include "core/hash.h"
#include "core/log.h"
#include "runtime/processes/detached_process.h"
#include "runtime/processes/own_program.h"

namespace pooch::runtime {
namespace {

// What `pooch doctor --host-handles` says at its end.
constexpr std::string_view works = "host handles work\n";
constexpr std::string_view crashes = "the driver crashes when it is asked for a handle of host memory\n";
constexpr std::string_view failure = "pooch: error: ";

Error refused(std::string_view why) {
  return {ErrorCode::invalid_argument, std::string(why.substr(0, why.find('\n')))};
}

// All that the other process said.
Result<std::string> ask(const DeviceInfo& device, const HostHandleTrial& trial) {
  const auto program = find_own_program("", trial.library_folder);
  if (!program) return refused(program.error().message + " to try handles of host memory with");
  log::info("{} tries handles of host memory", *program);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(trial.seconds);
  auto process = DetachedProcess::start(
      {{*program, "doctor", "--host-handles", device.bus_id}, own_environment(), trial.seconds + 1});
  if (!process) return process.error();
  if (process->wait_until(until)) return process->said();
  process->kill();
  return refused(
      fmt::format("{} got no handle of host memory from the driver in {} s", *program, trial.seconds));
}

}  // namespace

Status try_host_handles(const DeviceInfo& device, const CacheFolder& cache, const HostHandleTrial& trial) {
  if (device.bus_id.empty()) return Done{};
  const std::string version = file_version(device.driver);
  const CacheFolder verdicts(version.empty() ? "" : cache.path());
  const std::string about = fmt::format("{}, {} {}\n", device.name, device.driver, version);
  const std::string entry = fmt::format("host-handles-{:016x}", hash(about));
  if (const auto kept = verdicts.read(entry)) {
    if (*kept == about + std::string(works)) return Done{};
    if (*kept == about + std::string(crashes)) return refused(crashes);
  }
  const auto said = ask(device, trial);
  if (!said) return said.error();
  for (const std::string_view verdict : {works, crashes}) {
    if (!said->ends_with(verdict)) continue;
    (void)verdicts.store(entry, about + std::string(verdict));  // else the next run tries again
    return verdict == works ? Status(Done{}) : refused(verdict);
  }
  // What was refused, or killed, now may work another time.
  const std::size_t at = said->find(failure);
  return refused(at == std::string::npos ? "who tried handles of host memory ended without a word"
                                         : std::string_view(*said).substr(at + failure.size()));
}

}  // namespace pooch::runtime
