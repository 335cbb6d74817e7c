// A program that runs beside the user's and is not its child: no SIGCHLD, nothing for its wait() to find, no
// terminal signals.
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

#include "core/files.h"
#include "core/result.h"

namespace pooch::runtime {

struct DetachedCommand {
  std::vector<std::string> arguments;    // [0]: the program's absolute path
  std::vector<std::string> environment;  // NAME=value
  unsigned seconds = 60;                 // then SIGALRM ends it, whoever is left to watch
  std::vector<int> files = {};           // what it finds open as 3, 4, …: 16 at most
};

// stdin and stdout are /dev/null, stderr is kept; own session, folder "/", 10 steps nicer, signals as at
// birth, no other file open but the end of a pipe whose other end is ours: when the last process that has it
// is gone, by whatever death, the kernel ends the program (SIGIO).
class DetachedProcess {
 public:
  // Error: internal; invalid_argument, the program cannot be executed (vendor_status is the errno). Returns
  // when the program has been loaded.
  static Result<DetachedProcess> start(const DetachedCommand& command);
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
  DetachedProcess(OpenFile errors, OpenFile life, OpenFile process)
      : errors_(std::move(errors)), life_(std::move(life)), process_(std::move(process)) {}
  void read_errors();

  OpenFile errors_;   // pipe
  OpenFile life_;     // pipe, never read
  OpenFile process_;  // pidfd, or none
  bool ended_ = false;
  std::string said_;
};

}  // namespace pooch::runtime
