// Files that are there whole or not at all: written as a draft beside, then renamed.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace pooch::runtime {

// The reason alone; vendor_status is the errno.
inline Error file_error(int reason) {
  return {ErrorCode::invalid_argument, std::strerror(reason), reason};
}

// A write beyond the file size limit (ulimit -f) shall fail, not end the program.
class NoSizeSignal {
 public:
  NoSizeSignal() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~NoSizeSignal() {
    constexpr timespec at_once{0, 0};
    if (sigismember(&before_, SIGXFSZ) == 0) sigtimedwait(&only_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSizeSignal(const NoSizeSignal&) = delete;
  NoSizeSignal& operator=(const NoSizeSignal&) = delete;

 private:
  sigset_t only_, before_;
};

// Text that comes in pieces. Errors are file_error()s; a draft that is not committed is removed.
class DraftFile {
 public:
  static Result<DraftFile> open(const std::string& path) {
    static std::atomic<unsigned> drafts{0};  // two threads may write the same file
    std::string draft = fmt::format("{}.{}.{}.new", path, getpid(), drafts.fetch_add(1));
    const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file < 0) return file_error(errno);
    return DraftFile(path, std::move(draft), file);
  }
  DraftFile(DraftFile&& other) noexcept
      : path_(std::move(other.path_)),
        draft_(std::move(other.draft_)),
        file_(std::exchange(other.file_, -1)) {}
  DraftFile& operator=(DraftFile&&) = delete;
  ~DraftFile() {
    if (file_ < 0) return;
    ::close(file_);
    unlink(draft_.c_str());
  }

  // After an error nothing more is written, and commit() brings the error.
  void append(std::string_view text) {
    const NoSizeSignal quiet;
    while (reason_ == 0 && !text.empty()) {
      const ssize_t wrote = ::write(file_, text.data(), text.size());
      if (wrote >= 0) {
        text.remove_prefix(static_cast<std::size_t>(wrote));
      } else if (errno != EINTR) {
        reason_ = errno;
      }
    }
  }
  Status commit() {
    if (::close(std::exchange(file_, -1)) != 0 && reason_ == 0) reason_ = errno;
    if (reason_ == 0 && std::rename(draft_.c_str(), path_.c_str()) != 0) reason_ = errno;
    if (reason_ == 0) return Done{};
    unlink(draft_.c_str());
    return file_error(reason_);
  }

 private:
  DraftFile(std::string path, std::string draft, int file)
      : path_(std::move(path)), draft_(std::move(draft)), file_(file) {}

  std::string path_, draft_;
  int file_;        // -1: closed
  int reason_ = 0;  // errno of the first failure
};

inline Status write_whole(const std::string& path, std::string_view text) {
  auto draft = DraftFile::open(path);
  if (!draft) return draft.error();
  draft->append(text);
  return draft->commit();
}

// A regular file of at most 64 MiB. Error: invalid_argument, the reason alone.
inline Result<std::string> read_whole(const std::string& path) {
  constexpr off_t largest = off_t{64} << 20;
  // Not held up by a pipe that nobody writes to.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return file_error(errno);
  const auto refuse = [&](Error why) {
    ::close(file);
    return why;
  };
  struct stat facts;
  if (fstat(file, &facts) != 0) return refuse(file_error(errno));
  if (!S_ISREG(facts.st_mode)) return refuse({ErrorCode::invalid_argument, "not a file"});
  if (facts.st_size > largest) return refuse(file_error(EFBIG));
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::read(file, text.data() + got, text.size() - got);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return refuse(file_error(errno));
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  ::close(file);
  text.resize(got);
  return text;
}

}  // namespace pooch::runtime
