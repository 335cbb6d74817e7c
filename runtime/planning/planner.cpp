#include "runtime/planning/planner.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/log.h"
#include "runtime/planning/refused.h"
#include "runtime/processes/own_program.h"

namespace pooch::runtime {
namespace {

// What a planner finds open: its profile, and where its plan is to go.
constexpr const char* profile_name = "/dev/fd/3";
constexpr const char* plan_name = "/dev/fd/4";
// For what happens before and after the planner's own work.
constexpr std::chrono::milliseconds grace(1000);

// Rebuilt planners are other planners: their plans may differ.
std::string version_of(const std::string& planner) {
  const std::string build = file_version(planner);
  return build.empty() ? POOCH_VERSION : POOCH_VERSION " " + build;
}

std::string first_line(const std::string& text) {
  std::string line = text.substr(0, text.find('\n'));
  constexpr std::string_view prefix = "pooch: error: ";
  return line.starts_with(prefix) ? line.substr(prefix.size()) : line;
}

// A file without a name: whatever becomes of this process or the planner, nothing is left of it.
Result<OpenFile> nameless_file(const char* purpose) {
  OpenFile file(memfd_create(purpose, MFD_CLOEXEC));
  if (!file) return file_error(errno);
  return file;
}

// The files that a planner finds open, at the numbers from 3 on.
class OrderFiles {
 public:
  // Its name there.
  std::string add(const char* what, const std::string& content) {
    auto file = nameless_file("pooch-planner");
    const int reason = !file ? file.error().vendor_status : write_all(file->number(), content);
    if (reason != 0 && written_)
      written_ = refused(fmt::format("the {} cannot be written: {}", what, std::strerror(reason)));
    files_.push_back(reason == 0 ? std::move(*file) : OpenFile());
    return fmt::format("/dev/fd/{}", 2 + files_.size());
  }
  const Status& written() const { return written_; }
  std::vector<int> numbers() const {
    std::vector<int> all;
    for (const OpenFile& file : files_) all.push_back(file.number());
    return all;
  }
  OpenFile take(std::size_t index) { return std::move(files_[index]); }

 private:
  std::vector<OpenFile> files_;
  Status written_ = Done{};
};

}  // namespace

PlannerRun::PlannerRun(DetachedProcess process, OpenFile plan, std::chrono::steady_clock::time_point begun,
                       unsigned seconds)
    : process_(std::move(process)),
      plan_(std::move(plan)),
      seconds_(seconds),
      begun_(begun),
      until_(begun_ + std::chrono::seconds(seconds) + grace) {}

bool PlannerRun::ended() {
  if (process_.ended()) return true;
  if (std::chrono::steady_clock::now() < until_) return false;
  process_.kill();
  return true;
}

void PlannerRun::wait(std::chrono::steady_clock::duration most) {
  process_.wait_until(std::min(until_, std::chrono::steady_clock::now() + most));
}

Result<std::string> PlannerRun::result(const std::string& planner) const {
  auto text = read_whole(plan_.number());
  if (!text || !text->empty()) return text;
  if (const std::string said = first_line(process_.said()); !said.empty())
    return refused(fmt::format("{}: {}", planner, said));
  return refused(std::chrono::steady_clock::now() < begun_ + std::chrono::seconds(seconds_)
                     ? fmt::format("{} ended without a plan", planner)
                     : fmt::format("{} took longer than {} s", planner, seconds_));
}

Planner::Planner(const Config& config, const std::string& library_folder, unsigned seconds)
    : environment_(own_environment()), seconds_(seconds) {
  const auto found = find_own_program(config.planner_program, library_folder);
  if (found)
    path_ = *found;
  else
    missing_ = found.error().message + (config.planner_program.empty() ? "" : ", which POOCH_PLANNER names");
  version_ = version_of(path_);
}

Result<PlannerRun> Planner::start(const PlanOrder& order) const {
  const PlanIdentity& identity = order.identity;
  OrderFiles files;
  files.add("profile", to_json(order.profile));
  files.add("plan", "");
  std::vector<std::string> command{path_,           "plan",         profile_name,
                                   "--phase",       identity.phase, "--policy",
                                   identity.policy, "--memory",     std::to_string(identity.cap)};
  if (!identity.placed) command.push_back("--unplaced");
  const auto add = [&](const char* option, std::string value) {
    command.insert(command.end(), {option, std::move(value)});
  };
  add("-o", plan_name);
  if (order.room > 0) add("--room", std::to_string(order.room));
  for (const Plan* other : order.beside) add("--beside", files.add("plan beside it", to_json(*other)));
  if (order.follow != nullptr) add("--follow", files.add("plan to follow", to_json(*order.follow)));
  if (!files.written()) return files.written().error();
  log::info("phase {}: {} makes a plan", identity.phase, path_);
  // Read before the planner's alarm is set: an alarm that rings then never seems early.
  const auto begun = std::chrono::steady_clock::now();
  auto process = DetachedProcess::start({std::move(command), environment_, seconds_, files.numbers()});
  if (!process) return process.error();
  return PlannerRun(std::move(*process), files.take(1), begun, seconds_);
}

}  // namespace pooch::runtime
