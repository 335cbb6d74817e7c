// A program that runs beside the user's and is none of its children: no SIGCHLD, nothing for its wait() to
// find, no terminal signals.
//
//   caller ── clone ──▶ intermediate ── clone ──▶ the program
//     waits for it          exits at once           adopted by init
//
// Both clones borrow the caller's memory while the caller's thread is suspended (CLONE_VM | CLONE_VFORK), as
// posix_spawn does: no page tables are copied, no pthread_atfork handler runs, no lock of another thread is
// ever needed. The intermediate's exit raises no signal (exit signal 0) and only we wait for it (__WCLONE).
// posix_spawn itself cannot set an alarm, and its child would be the user's.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "core/result.h"

namespace pooch::runtime {

struct DetachedCommand {
  std::vector<std::string> arguments;    // [0]: the program's absolute path
  std::vector<std::string> environment;  // NAME=value
  unsigned seconds = 60;                 // then SIGALRM ends it, whoever is left to watch
};

// stdin and stdout are /dev/null, stderr is kept; own session, folder "/", 10 steps nicer, signals as at
// birth, no other file open.
class DetachedProcess {
 public:
  // Error: internal; invalid_argument, the program cannot be executed (vendor_status is the errno). Returns
  // when the program has been loaded.
  static Result<DetachedProcess> start(const DetachedCommand& command);
  DetachedProcess(DetachedProcess&& other) noexcept
      : errors_(std::exchange(other.errors_, -1)),
        process_(std::exchange(other.process_, -1)),
        ended_(other.ended_),
        said_(std::move(other.said_)) {}
  DetachedProcess& operator=(DetachedProcess&&) = delete;
  ~DetachedProcess();

  // Never waits.
  bool ended();
  // Waits for its end, until then at most; true: it has ended.
  bool wait_until(std::chrono::steady_clock::time_point then);
  // Where the kernel has no pidfd (before 5.3) the alarm alone ends it: a bare number may be another's by
  // now.
  void kill();
  // What it wrote to stderr so far, up to 4 KiB.
  const std::string& said() const { return said_; }

 private:
  DetachedProcess(int errors, int process) : errors_(errors), process_(process) {}
  void read_errors();

  int errors_;   // pipe
  int process_;  // pidfd, or -1
  bool ended_ = false;
  std::string said_;
};

}  // namespace pooch::runtime
