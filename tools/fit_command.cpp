#include "fit_command.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "core/bytes.h"
#include "core/live.h"
#include "fit.h"
#include "plan_command.h"
#include "report.h"
#include "run_command.h"
#include "simulate_run.h"
#include "temporary_folder.h"
#include "text_file.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

Error refused(std::string message) {
  return {ErrorCode::invalid_argument, std::move(message)};
}

// One line that replaces the one before, where somebody sees it.
void show_progress(const std::string& line) {
  if (isatty(STDERR_FILENO) != 0) say("\r\033[Kpooch: fit: {}", line);
}
void end_progress() {
  if (isatty(STDERR_FILENO) != 0) say("\r\033[K");
}

// Looks at the pages of a run's sessions, and says when what it does is known.
class Watcher {
 public:
  Watcher(fs::path pages, std::chrono::seconds most)
      : pages_(std::move(pages)), until_(Clock::now() + most) {}

  bool enough() {
    std::uint64_t iterations = 0;
    bool measured = false, training = false;
    for (const std::string& path : live_pages(pages_.string())) {
      const auto live = read_live(path);
      if (!live) continue;
      iterations = std::max(iterations, live->iterations);
      measured |= live->measured_phases > 0;
      training |= live->measured_training > 0;
    }
    show_progress(fmt::format("{} iterations{}", iterations, measured ? ", measured" : ""));
    // Some more, in which phases that are rarer may come. What begins with an evaluation trains later.
    if (measured && !measured_at_) measured_at_ = iterations;
    if (training && !trained_at_) trained_at_ = iterations;
    return (trained_at_ && iterations >= *trained_at_ + more) ||
           (measured_at_ && iterations >= *measured_at_ + without_training) || Clock::now() > until_;
  }

 private:
  static constexpr std::uint64_t more = 2, without_training = 500;
  const fs::path pages_;
  const Clock::time_point until_;
  std::optional<std::uint64_t> measured_at_, trained_at_;
};

double measured_us(const Profile& profile) {
  double us = 0;
  for (const PhaseProfile& phase : profile.phases)
    if (phase.measured > 0) us += phase.iteration_us * static_cast<double>(phase.seen);
  return us;
}

// Of the process that did most.
Result<Profile> profile_in(const fs::path& folder) {
  std::optional<Profile> found;
  for (const auto& [process, summary] : summaries_in(folder)) {
    const auto text = read_text((summary.parent_path() / "profile.json").string());
    if (!text) continue;
    auto profile = profile_from_json(*text);
    if (!profile) return refused("profile.json: " + profile.error().message);
    if (!found || measured_us(*profile) > measured_us(*found)) found = std::move(*profile);
  }
  if (found) return std::move(*found);
  return refused("the command left no profile: it used no memory of a GPU, or not through CUDA");
}

// Error: `code` is what to end with, after the error's line where it has one.
Result<Profile> watch(const FitOptions& options, int& code) {
  code = exit_failed;
  const auto folder = TemporaryFolder::make();
  if (!folder) return folder.error();
  const fs::path pages = folder->path() / "status";
  std::error_code error;
  fs::create_directory(pages, error);
  fs::permissions(pages, fs::perms::owner_all, error);
  forget_settings_of_runs();
  Watcher watcher(pages, std::chrono::seconds(options.seconds));
  RunOptions run;
  run.device = options.device;
  run.host_memory = options.host_memory;
  run.policy = "demand";
  run.command = options.command;
  run.enough = [&watcher] { return watcher.enough(); };
  const auto ended =
      run_into(folder->path(), run, {{"POOCH_STATUS", pages.string()}, {"POOCH_MEMORY_CAP", ""}});
  end_progress();
  if (!ended) return ended.error();
  if (*ended != 0) {
    code = *ended;
    return refused("");  // the command has said why, or was interrupted
  }
  return profile_in(folder->path());
}

Result<Profile> read_profile(const std::string& path) {
  const auto text = read_text(path);
  if (!text) return refused(fmt::format("{}: {}", path, text.error().message));
  auto profile = profile_from_json(*text);
  if (!profile) return refused(fmt::format("{}: {}", path, profile.error().message));
  return profile;
}

Result<std::vector<std::uint64_t>> caps_of(const FitOptions& options, std::uint64_t whole) {
  std::vector<std::uint64_t> caps;
  for (const std::string& text : options.memory) {
    const auto bytes = parse_bytes(text, whole);
    if (!bytes) return refused("--memory " + bytes.error().message);
    if (*bytes == 0) return refused(fmt::format("--memory '{}': accepted are sizes above 0", text));
    caps.push_back(*bytes);
  }
  return caps;
}

// As a shell takes it.
std::string quoted(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) {
    constexpr const char* plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%";
    const bool bare = !word.empty() && word.find_first_not_of(plain) == std::string::npos;
    std::string inner;
    for (const char c : word) inner += c == '\'' ? std::string("'\\''") : std::string(1, c);
    line += (line.empty() ? "" : " ") + (bare ? word : "'" + inner + "'");
  }
  return line.empty() ? "CMD" : line;
}

// As `pooch run` takes it, behind what says how much memory.
std::string command_line(const FitOptions& options) {
  std::vector<std::string> words;
  if (options.device != "real") words.insert(words.end(), {"--device", options.device});
  if (options.host_memory) words.insert(words.end(), {"--host-memory", *options.host_memory});
  if (options.policy != "hybrid") words.insert(words.end(), {"--policy", options.policy});
  return (words.empty() ? "" : quoted(words) + " ") + "-- " + quoted(options.command);
}

}  // namespace

int fit_command(const FitOptions& options) {
  if (options.profile.empty() == options.command.empty())
    return complain("fit", {exit_bad_usage, "accepted is either a command after -- or a profile.json"});
  if (const auto why = refused_policy(options.policy, false))
    return complain("fit", {exit_bad_usage, "--policy " + *why});
  if (const auto caps = caps_of(options, GiB); !caps)
    return complain("fit", {exit_bad_usage, caps.error().message});
  int code = exit_bad_usage;
  if (!options.profile.empty() && (options.device != "real" || options.host_memory))
    return complain(
        "fit", {exit_bad_usage, "--device and --host-memory are of a command's run; a profile has its own"});
  const auto profile = options.profile.empty() ? watch(options, code) : read_profile(options.profile);
  if (!profile) return complain("fit", {code, profile.error().message});
  const auto caps = caps_of(options, profile->device_bytes);
  if (!caps) return complain("fit", {exit_bad_usage, caps.error().message});
  const auto made = fit(*profile, *caps, options.policy, [](std::size_t done, std::size_t all) {
    show_progress(fmt::format("{} of {} caps planned", done, all));
  });
  end_progress();
  if (!made) return complain("fit", {exit_failed, made.error().message});
  const std::string command = command_line(options);
  return print_text("fit",
                    options.json ? fit_json(*made, *profile, command) : fit_text(*made, *profile, command));
}

}  // namespace pooch::tools
