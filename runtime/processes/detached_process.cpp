#include "runtime/processes/detached_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

// clone by glibc's other name. ThreadSanitizer intercepts `clone`, treats it as a fork, and lets the child
// ignore locks; our child shares the caller's memory, so the calling thread would ignore them from then on.
extern "C" int unseen_clone(int (*function)(void*), void* stack, int flags, void* argument, ...) noexcept
    __asm__("__clone");

namespace pooch::runtime {
namespace {

constexpr std::size_t stack_bytes = std::size_t{64} << 10;
constexpr std::size_t said_limit = 4096;
constexpr int nicer_by = 10;
constexpr int most_files = 16;
constexpr int first_own = STDERR_FILENO + 1 + most_files + 1;  // beside those and the end that tells of ours

// Shared by the caller and the two processes that borrow its memory.
struct Birth {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int null, errors, life;  // files, first_own or above
  std::array<int, most_files> files;
  std::size_t file_count;
  itimerval alarm;
  char* stack;  // top, of the program's process before exec
  int id = -1;
  int failure = 0;  // errno
};

// Between clone and exec: system calls only. They are made directly, because sanitizers' interceptors would
// note for the caller what the child does.
template <class... Args>
[[gnu::no_sanitize("address", "thread", "undefined")]] long call(long number, Args... args) {
  return syscall(number, args...);
}

[[gnu::no_sanitize("address", "thread", "undefined")]] void close_from(unsigned first) {
  if (call(SYS_close_range, first, ~0u, 0u) == 0) return;
  for (unsigned file = first; file < 65536; ++file) call(SYS_close, file);  // before Linux 5.9
}

// From here on the kernel sends SIGIO, whose default is death, when nobody has the pipe's other end any more.
[[gnu::no_sanitize("address", "thread", "undefined")]] void die_with_caller(int life) {
  call(SYS_fcntl, life, F_SETOWN, call(SYS_getpid));
  call(SYS_fcntl, life, F_SETFL, O_WRONLY | O_ASYNC);
  // It may have happened before.
  pollfd end{life, 0, 0};
  constexpr timespec at_once{0, 0};
  if (call(SYS_ppoll, &end, 1, &at_once, nullptr, sizeof(unsigned long)) > 0) call(SYS_exit_group, 127);
}

[[gnu::no_sanitize("address", "thread", "undefined")]] int become_program(void* argument) {
  auto& birth = *static_cast<Birth*>(argument);
  call(SYS_setsid);
  // An ignored signal would stay ignored; all zero is SIG_DFL without flags.
  constexpr unsigned long by_default[4] = {};
  for (int signal = 1; signal <= 64; ++signal)
    call(SYS_rt_sigaction, signal, by_default, nullptr, sizeof(unsigned long));
  call(SYS_dup3, birth.null, STDIN_FILENO, 0);
  call(SYS_dup3, birth.null, STDOUT_FILENO, 0);
  call(SYS_dup3, birth.errors, STDERR_FILENO, 0);
  int next = STDERR_FILENO + 1;
  for (std::size_t i = 0; i < birth.file_count; ++i) call(SYS_dup3, birth.files[i], next++, 0);
  call(SYS_dup3, birth.life, next, 0);
  close_from(static_cast<unsigned>(next) + 1);
  call(SYS_chdir, "/");
  const long niceness = 20 - call(SYS_getpriority, PRIO_PROCESS, 0);  // the kernel answers 20 - nice
  call(SYS_setpriority, PRIO_PROCESS, 0, std::min(niceness + nicer_by, 19L));
  call(SYS_setitimer, ITIMER_REAL, &birth.alarm, nullptr);  // survives exec
  constexpr unsigned long none = 0;
  call(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, sizeof none);
  die_with_caller(next);
  call(SYS_execve, birth.program, birth.arguments, birth.environment);
  birth.failure = errno;
  call(SYS_exit_group, 127);
  return 127;
}

[[gnu::no_sanitize("address", "thread", "undefined")]] int become_intermediate(void* argument) {
  auto& birth = *static_cast<Birth*>(argument);
  const int id = unseen_clone(become_program, birth.stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &birth);
  if (id < 0) {
    birth.failure = errno;
  } else {
    birth.id = id;
  }
  call(SYS_exit_group, 0);
  return 0;
}

Error failed(const char* what, int reason) {
  return {ErrorCode::internal, fmt::format("{}: {}", what, strerror(reason)), reason};
}

// A file number that redirection will not overwrite: a program may have closed its own first three.
OpenFile out_of_the_way(int file) {
  if (file < 0 || file >= first_own) return OpenFile(file);
  const OpenFile low(file);
  return OpenFile(fcntl(file, F_DUPFD_CLOEXEC, first_own));
}

// {to read from, to write to}
Result<std::pair<OpenFile, OpenFile>> make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return failed("pipe", errno);
  std::pair both(out_of_the_way(ends[0]), out_of_the_way(ends[1]));
  if (!both.first || !both.second) return failed("pipe", errno);
  return both;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) all.push_back(const_cast<char*>(text.c_str()));
  all.push_back(nullptr);
  return all;
}

// No handler of the program may run in a process that borrows its memory; the C library would leave its own
// signals (thread cancellation) open.
class NoSignals {
 public:
  NoSignals() {
    constexpr unsigned long all = ~0ul;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before_, sizeof all);
  }
  ~NoSignals() { syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof before_); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  unsigned long before_ = 0;
};

// 0, or an errno.
int give_birth(Birth& birth) {
  struct Stacks {
    alignas(64) std::array<char, stack_bytes> intermediate, program;
  };
  const auto stacks = std::make_unique<Stacks>();
  birth.stack = stacks->program.data() + stack_bytes;
  const NoSignals blocked;
  const int intermediate = unseen_clone(become_intermediate, stacks->intermediate.data() + stack_bytes,
                                        CLONE_VM | CLONE_VFORK, &birth);
  if (intermediate < 0) return errno;
  while (waitpid(intermediate, nullptr, __WCLONE) < 0 && errno == EINTR) {
  }
  return birth.failure;
}

}  // namespace

Result<DetachedProcess> DetachedProcess::start(const DetachedCommand& command) {
  const std::vector<char*> arguments = pointers(command.arguments);
  const std::vector<char*> environment = pointers(command.environment);
  const OpenFile null = out_of_the_way(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null) return failed("/dev/null", errno);
  auto errors = make_pipe();
  if (!errors) return errors.error();
  auto life = make_pipe();
  if (!life) return life.error();
  fcntl(errors->second.number(), F_SETFL, 0);  // the program's end may block

  Birth birth{arguments[0],
              arguments.data(),
              environment.data(),
              null.number(),
              errors->second.number(),
              life->second.number(),
              {},
              std::min(command.files.size(), std::size_t{most_files}),
              itimerval{{0, 0}, {static_cast<time_t>(command.seconds), 0}},
              nullptr};
  std::vector<OpenFile> moved;
  for (std::size_t i = 0; i < birth.file_count; ++i) {
    moved.emplace_back(fcntl(command.files[i], F_DUPFD_CLOEXEC, first_own));
    if (!moved.back()) return failed("a file for the program", errno);
    birth.files[i] = moved.back().number();
  }
  if (const int reason = give_birth(birth); reason != 0) {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("{} cannot be run: {}", command.arguments[0], strerror(reason)), reason};
  }
  // The number was taken a moment ago, so it is nobody else's yet.
  OpenFile process(static_cast<int>(syscall(SYS_pidfd_open, birth.id, 0u)));
  return DetachedProcess(std::move(errors->first), std::move(life->first), std::move(process));
}

// At most a pipe's content, so that a program that never stops talking does not hold us up.
void DetachedProcess::read_errors() {
  std::array<char, 4096> piece;
  for (int i = 0; i < 16 && errors_; ++i) {
    const ssize_t got = read(errors_.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      errors_ = OpenFile();
      return;
    }
    const auto room = said_limit - said_.size();
    said_.append(piece.data(), std::min(static_cast<std::size_t>(got), room));
  }
}

bool DetachedProcess::ended() {
  return wait_until(std::chrono::steady_clock::time_point::min());
}

bool DetachedProcess::wait_until(std::chrono::steady_clock::time_point then) {
  for (bool last = false; !ended_ && !last;) {
    const auto now = std::chrono::steady_clock::now();
    last = then <= now;
    const auto left = last ? std::chrono::milliseconds(0)
                           : std::min(std::chrono::ceil<std::chrono::milliseconds>(then - now),
                                      std::chrono::milliseconds(1000));
    std::array<pollfd, 2> files{pollfd{errors_.number(), POLLIN, 0}, pollfd{process_.number(), POLLIN, 0}};
    if (poll(files.data(), files.size(), static_cast<int>(left.count())) < 0) continue;  // a signal
    read_errors();
    // Without a pidfd the end of stderr tells.
    ended_ = process_ ? files[1].revents != 0 : !errors_;
  }
  // Where the user's program is its own init, nobody else takes note of the end.
  constexpr auto by_pidfd = static_cast<idtype_t>(3);
  if (ended_ && process_) waitid(by_pidfd, static_cast<id_t>(process_.number()), nullptr, WEXITED | WNOHANG);
  return ended_;
}

void DetachedProcess::kill() {
  if (!ended_ && process_) syscall(SYS_pidfd_send_signal, process_.number(), SIGKILL, nullptr, 0u);
}

}  // namespace pooch::runtime
