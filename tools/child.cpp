#include "child.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace pooch::tools {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&set, signal);
  return set;
}

// Once the child has done enough: ends it and all of its process group, which it leads.
class Ender {
 public:
  Ender(pid_t child, const std::function<bool()>& enough) : child_(child), enough_(enough) {}

  void look() {
    if (!enough_) return;
    if (!asked_ && enough_()) {
      asked_ = true;
      until_ = Clock::now() + patience;
      kill(-child_, SIGTERM);
      kill(-child_, SIGCONT);
    } else if (asked_ && Clock::now() > until_) {
      kill(-child_, SIGKILL);
    }
  }
  // After the child's own end. Others of the group may still be writing their reports.
  void end_the_rest() {
    if (!asked_) return;
    while (kill(-child_, 0) == 0) {
      while (waitpid(-child_, nullptr, WNOHANG) > 0) continue;
      if (Clock::now() > until_) kill(-child_, SIGKILL);
      usleep(10'000);
    }
  }
  bool looks() const { return static_cast<bool>(enough_); }
  bool has_ended_it() const { return asked_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds patience{20};

  const pid_t child_;
  const std::function<bool()>& enough_;
  bool asked_ = false;
  Clock::time_point until_{};
};

// Hands signals on until the child is gone.
ChildEnd wait_for(pid_t child, const sigset_t& watched, const std::function<bool()>& enough) {
  Ender ender(child, enough);
  while (true) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      ender.end_the_rest();
      if (WIFSIGNALED(status)) return {0, WTERMSIG(status), ender.has_ended_it()};
      return {WEXITSTATUS(status), 0, ender.has_ended_it()};
    }
    ender.look();
    siginfo_t info{};
    const timespec tenth{0, 100'000'000};
    const int signal = ender.looks() ? sigtimedwait(&watched, &info, &tenth) : sigwaitinfo(&watched, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    // A terminal sends its own signals to the whole foreground group: the child has had them.
    if (ender.looks())
      kill(-child, signal);
    else if (info.si_code != SI_KERNEL)
      kill(child, signal);
  }
}

}  // namespace

Result<ChildEnd> run_child(const std::vector<std::string>& command,
                           const std::vector<std::string>& environment, const std::function<bool()>& enough) {
  const std::vector<char*> arguments = pointers(command);
  const std::vector<char*> variables = pointers(environment);
  const sigset_t watched = watched_signals();
  sigset_t before;
  if (enough) prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::signal(SIGCHLD, SIG_DFL);  // an ignored one would leave nothing to wait for
  sigprocmask(SIG_BLOCK, &watched, &before);
  // Closed by a successful exec; otherwise brings the reason.
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0)
    return Error{ErrorCode::internal, fmt::format("pipe: {}", strerror(errno))};
  const pid_t launcher = getpid();
  const pid_t child = fork();
  if (child < 0) return Error{ErrorCode::internal, fmt::format("fork: {}", strerror(errno))};
  if (child == 0) {
    // Whatever ends this process ends the command: also what no handler sees. That may have happened already.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (enough) {
      setpgid(0, 0);  // not the terminal's: who reads from that would be stopped
      const int nothing = open("/dev/null", O_RDONLY);
      if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    }
    if (getppid() != launcher) _exit(128 + SIGKILL);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvpe(arguments[0], arguments.data(), variables.data());
    const int reason = errno;
    if (write(failure[1], &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
  }
  if (enough) setpgid(child, child);
  close(failure[1]);
  int reason = 0;
  ssize_t got = 0;
  do got = read(failure[0], &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  close(failure[0]);
  const ChildEnd end = wait_for(child, watched, enough);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (got > 0) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("'{}' cannot be run: {}", command[0], strerror(reason)), reason};
  }
  return end;
}

namespace {

// Nothing where the other end is not closed in time.
std::optional<std::string> read_until(int file, std::chrono::steady_clock::time_point end) {
  using std::chrono::milliseconds;
  std::string text;
  std::array<char, 1 << 16> piece;
  while (true) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left <= milliseconds(0)) return std::nullopt;
    pollfd wanted{file, POLLIN, 0};
    const int ready = poll(&wanted, 1, static_cast<int>(left.count()));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    const ssize_t got = ready > 0 ? read(file, piece.data(), piece.size()) : -1;
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 ? std::optional(std::move(text)) : std::nullopt;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& command, std::chrono::seconds limit,
                                     std::optional<std::chrono::seconds> processor) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = -1;
  const int problem = posix_spawnp(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (problem == 0 && processor) {
    const rlimit most{static_cast<rlim_t>(processor->count()), static_cast<rlim_t>(processor->count())};
    (void)prlimit(child, RLIMIT_CPU, &most, nullptr);
  }
  const auto text =
      problem == 0 ? read_until(ends[0], std::chrono::steady_clock::now() + limit) : std::nullopt;
  if (problem == 0 && !text) kill(child, SIGKILL);
  close(ends[0]);
  int status = -1;
  if (problem != 0 || waitpid(child, &status, 0) != child || status != 0) return std::nullopt;
  return text;
}

}  // namespace pooch::tools
