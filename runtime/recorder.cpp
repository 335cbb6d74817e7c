#include "runtime/recorder.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/log.h"

namespace pooch::runtime {
namespace {

// A pipe whose reader went away, or a file as large as it may be, raises a signal that would end the program:
// it is kept from this thread during a write, and taken back if the write raised it.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigemptyset(&ours_);
    sigset_t pending;
    sigpending(&pending);
    for (const int signal : {SIGPIPE, SIGXFSZ})
      if (sigismember(&pending, signal) == 0) sigaddset(&ours_, signal);
    pthread_sigmask(SIG_BLOCK, &ours_, &before_);
  }
  ~NoWriteSignals() {
    const timespec now{};
    const int reason = errno;
    if (raised_)
      while (sigtimedwait(&ours_, nullptr, &now) < 0 && errno == EINTR) continue;
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = reason;
  }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

  void raised() { raised_ = true; }

 private:
  sigset_t ours_, before_;
  bool raised_ = false;
};

Status write_all(int file, std::string_view bytes) {
  NoWriteSignals guard;
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      if (reason == EPIPE || reason == EFBIG) guard.raised();
      return Error{ErrorCode::invalid_argument, std::strerror(reason)};
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return Done{};
}

// The file, empty and ours alone.
Result<int> open_file(const std::string& path) {
  const auto failed = [](int reason) { return Error{ErrorCode::invalid_argument, std::strerror(reason)}; };
  // Without O_NONBLOCK a pipe that nobody reads would hold up the program for good.
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0)
    return errno == ENXIO ? Error{ErrorCode::invalid_argument, "nobody reads this pipe"} : failed(errno);
  struct stat kind {};
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(file);
    return Error{ErrorCode::invalid_argument, "another process records there"};
  }
  const bool shortened = fstat(file, &kind) == 0 && (!S_ISREG(kind.st_mode) || ftruncate(file, 0) == 0);
  if (!shortened || fcntl(file, F_SETFL, 0) != 0) {
    const int reason = errno;
    ::close(file);
    return failed(reason);
  }
  return file;
}

}  // namespace

void Recorder::open(const std::string& path, const RecordedSession& session) {
  if (path.empty()) return;
  path_ = path;
  const auto file = open_file(path);
  if (!file) return log::error("POOCH_RECORD: {}: {}; nothing is recorded", path, file.error().message);
  file_ = *file;
  const auto sink = [to = file_](std::string_view bytes) { return write_all(to, bytes); };
  writer_ = std::make_unique<RecordingWriter>(sink, session);
  flush();
}

void Recorder::flush() {
  if (writer_ == nullptr) return;
  writer_->flush();
  if (writer_->failure()) fail();
}

void Recorder::finish() {
  if (writer_ == nullptr) return;
  writer_->end();
  writer_->failure() ? fail() : close();
}

void Recorder::fail() {
  log::error("POOCH_RECORD: {}: {}; the recording ends here", path_, writer_->failure()->message);
  close();
}

void Recorder::close() {
  writer_.reset();
  ::close(file_);
  file_ = -1;
}

}  // namespace pooch::runtime
