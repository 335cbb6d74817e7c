#include "core/files.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>

namespace pooch {
namespace fs = std::filesystem;
namespace {

// The two signals that a write can raise are kept from this thread meanwhile. One that the write did raise is
// taken back. One that was pending before is the program's own and stays.
class NoWriteSignals {
 public:
  NoWriteSignals() {
    sigpending(&pending_);
    sigset_t both;
    sigemptyset(&both);
    for (const int signal : {SIGPIPE, SIGXFSZ}) sigaddset(&both, signal);
    pthread_sigmask(SIG_BLOCK, &both, &before_);
  }
  ~NoWriteSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoWriteSignals(const NoWriteSignals&) = delete;
  NoWriteSignals& operator=(const NoWriteSignals&) = delete;

  // A write has failed for this reason.
  void take_back(int reason) {
    const int signal = reason == EPIPE ? SIGPIPE : reason == EFBIG ? SIGXFSZ : 0;
    if (signal == 0 || sigismember(&pending_, signal) != 0) return;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, signal);
    constexpr timespec at_once{0, 0};
    while (sigtimedwait(&one, nullptr, &at_once) < 0 && errno == EINTR) continue;
  }

 private:
  sigset_t pending_, before_;
};

// The number N of a path that is another name of this process's open file N; -1: it is none.
int descriptor_named(std::string_view path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const std::string_view digits = path.substr(folder.size());
    int number = -1;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (error == std::errc() && end == digits.data() + digits.size()) return number;
  }
  return -1;
}

fs::path folder_of(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

// In a folder where anybody may make files (as /tmp) links count that are the user's own or the folder's
// owner's: the rule of Linux's fs.protected_symlinks, whatever that is set to here.
bool is_planted(const struct stat& link, const fs::path& folder) {
  struct stat facts {};
  if (stat(folder.c_str(), &facts) != 0) return true;
  const bool anybodys = (facts.st_mode & S_IWOTH) != 0 && (facts.st_mode & S_ISVTX) != 0;
  return anybodys && link.st_uid != geteuid() && link.st_uid != facts.st_uid;
}

// Where the links end that `path` may be; there need not be anything there yet.
Result<std::string> place_of(const std::string& path) {
  fs::path place(path);
  for (int links = 0; links < 40 && descriptor_named(place.native()) < 0; ++links) {
    struct stat facts {};
    if (lstat(place.c_str(), &facts) != 0) {
      if (errno != ENOENT) return file_error(errno);
      return place.native();
    }
    if (!S_ISLNK(facts.st_mode)) return place.native();
    const fs::path folder = folder_of(place);
    if (is_planted(facts, folder)) return file_error(EACCES);
    std::error_code error;
    place = folder / fs::read_symlink(place, error);
    if (error) return file_error(error.value());
  }
  if (descriptor_named(place.native()) >= 0) return place.native();
  return file_error(ELOOP);
}

Result<int> open_descriptor(int number) {
  const int file = fcntl(number, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (file < 0) return file_error(errno);
  return file;
}

// What is there already, or a new file that is written in place.
Result<int> open_in_place(const std::string& place, const OutputOptions& options, int flags) {
  const int patience = options.waits ? 0 : O_NONBLOCK;
  const int file = ::open(place.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | flags | patience, options.mode);
  if (file < 0) {
    if (errno == ENXIO && !options.waits)
      return Error{ErrorCode::invalid_argument, "nobody reads this pipe", ENXIO};
    return file_error(errno);
  }
  if (patience != 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

// --- drafts: PLACE.PROCESS.NUMBER.new, locked as long as somebody writes them

// This process has not written there yet.
bool is_new(const std::string& place) {
  static std::mutex mutex;
  static auto* const seen = new std::set<std::string>;  // outputs are written by exit handlers too
  const std::lock_guard lock(mutex);
  return seen->insert(place).second;
}

bool is_draft(std::string_view name, std::string_view of) {
  if (!name.starts_with(of) || !name.ends_with(".new") || name.size() < of.size() + 8) return false;
  name = name.substr(of.size(), name.size() - of.size() - 4);
  return name.starts_with('.') && std::count(name.begin(), name.end(), '.') == 2 &&
         name.find_first_not_of(".0123456789") == std::string_view::npos;
}

// Removes what writers left that were killed.
void sweep_drafts(const fs::path& place) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder_of(place), error)) {
    if (!is_draft(entry.path().filename().native(), place.filename().native())) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0) continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0) unlink(entry.path().c_str());
    ::close(file);
  }
}

// Another process may take a draft for a dead one's until it is locked.
bool lock_draft(int file) {
  struct stat facts {};
  if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
  return fstat(file, &facts) == 0 && facts.st_nlink > 0;
}

Result<std::pair<int, std::string>> make_draft(const std::string& place, mode_t mode) {
  static std::atomic<unsigned> drafts{0};  // two threads may write the same file
  for (int tries = 0; tries < 100; ++tries) {
    std::string draft = fmt::format("{}.{}.{}.new", place, getpid(), drafts.fetch_add(1));
    const int file = ::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    if (file < 0 && errno == EEXIST) continue;
    if (file < 0) return file_error(errno);
    if (lock_draft(file)) return std::pair(file, std::move(draft));
    ::close(file);
  }
  return file_error(EEXIST);
}

}  // namespace

Error file_error(int reason) {
  return {ErrorCode::invalid_argument, std::strerror(reason), reason};
}

OpenFile::~OpenFile() {
  if (number_ >= 0) ::close(number_);
}

int write_all(int file, std::string_view text) {
  NoWriteSignals guard;
  while (!text.empty()) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) {
      const int reason = errno;
      guard.take_back(reason);
      return reason;
    }
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

Result<OutputFile> OutputFile::open(const std::string& path, const OutputOptions& options) {
  const auto place = options.replaces ? Result<std::string>(path) : place_of(path);
  if (!place) return place.error();
  const auto directly = [&](Result<int> file) -> Result<OutputFile> {
    if (!file) return file.error();
    return OutputFile(*place, {}, *file);
  };
  const Error not_replaced{ErrorCode::not_supported, "not a file that is replaced"};
  struct stat facts {};
  bool exists = false;
  if (!options.replaces) {
    if (const int number = descriptor_named(*place); number >= 0) {
      if (options.again) return not_replaced;
      return directly(open_descriptor(number));
    }
    exists = lstat(place->c_str(), &facts) == 0;
  }
  if (exists && S_ISDIR(facts.st_mode)) return file_error(EISDIR);
  if (exists && !S_ISREG(facts.st_mode) && options.again) return not_replaced;
  if (exists && !S_ISREG(facts.st_mode)) return directly(open_in_place(*place, options, O_NOFOLLOW));
  if (is_new(*place)) sweep_drafts(*place);
  auto draft = make_draft(*place, options.mode);
  if (!draft) return draft.error();
  // A file that was for few eyes stays so.
  if (exists) (void)fchmod(draft->first, facts.st_mode & options.mode);
  return OutputFile(*place, std::move(draft->second), draft->first);
}

OutputFile::~OutputFile() {
  if (file_ < 0) return;
  if (!draft_.empty()) unlink(draft_.c_str());
  ::close(file_);
}

void OutputFile::append(std::string_view text) {
  if (reason_ == 0) reason_ = write_all(file_, text);
}

Status OutputFile::commit() {
  // Closing may bring an error of its own; the lock stays until the draft has its name.
  const int lock = fcntl(file_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (::close(std::exchange(file_, -1)) != 0 && reason_ == 0) reason_ = errno;
  if (!draft_.empty()) {
    if (reason_ == 0 && std::rename(draft_.c_str(), place_.c_str()) != 0) reason_ = errno;
    if (reason_ != 0) unlink(draft_.c_str());
  }
  if (lock >= 0) ::close(lock);
  if (reason_ == 0) return Done{};
  return file_error(reason_);
}

Status write_whole(const std::string& path, std::string_view text, const OutputOptions& options) {
  auto file = OutputFile::open(path, options);
  if (!file) return file.error();
  file->append(text);
  return file->commit();
}

Result<int> open_stream(const std::string& path, const OutputOptions& options) {
  const auto place = place_of(path);
  if (!place) return place.error();
  if (const int number = descriptor_named(*place); number >= 0) return open_descriptor(number);
  const auto file = open_in_place(*place, options, O_CREAT | O_NOFOLLOW);
  if (!file) return file;
  struct stat facts {};
  if (fstat(*file, &facts) == 0 && !S_ISREG(facts.st_mode)) return file;
  const bool alone = flock(*file, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
  if (alone && ftruncate(*file, 0) == 0) return file;
  const int reason = errno;
  ::close(*file);
  if (!alone) return Error{ErrorCode::invalid_argument, "another process records there", reason};
  return file_error(reason);
}

Result<std::string> read_whole(const std::string& path) {
  // Not held up by a pipe that nobody writes to.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0) return file_error(errno);
  auto text = read_whole(file);
  ::close(file);
  return text;
}

Result<std::string> read_whole(int file) {
  constexpr off_t largest = off_t{64} << 20;
  struct stat facts {};
  if (fstat(file, &facts) != 0) return file_error(errno);
  if (!S_ISREG(facts.st_mode)) return Error{ErrorCode::invalid_argument, "not a file"};
  if (facts.st_size > largest) return file_error(EFBIG);
  std::string text(static_cast<std::size_t>(facts.st_size), '\0');
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::pread(file, text.data() + got, text.size() - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(errno);
    if (n == 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

}  // namespace pooch
