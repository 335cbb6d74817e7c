#include "record_command.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "recording_file.h"
#include "temporary_folder.h"
#include "text_file.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

// A named pipe in a folder of its own, and its end to read from.
class NamedPipe {
 public:
  NamedPipe() {
    if (!folder_) return;
    if (mkfifo(path().c_str(), 0600) != 0) return;
    // The library opens its end only where there is a reader.
    file_ = ::open(path().c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~NamedPipe() { close(); }
  NamedPipe(const NamedPipe&) = delete;
  NamedPipe& operator=(const NamedPipe&) = delete;

  bool good() const { return file_ >= 0; }
  fs::path path() const { return folder_->path() / "calls"; }
  int file() const { return file_; }
  // From now on a writer is refused instead of kept waiting.
  void close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

 private:
  Result<TemporaryFolder> folder_ = TemporaryFolder::make();
  int file_ = -1;
};

// Moves what comes through the pipe into the file, in a thread of its own, until the writer has closed its
// end or the command has ended: a process that it left behind may hold the pipe open for ever.
class Relay {
 public:
  Relay(NamedPipe& pipe, CompressedFile& file) : pipe_(pipe), file_(file) {
    if (pipe2(stop_, O_CLOEXEC) != 0) return;
    // Signals are the main thread's business: it hands them on to the command.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] {
      run();
      pipe_.close();
    });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  ~Relay() {
    (void)finish();
    for (const int end : stop_)
      if (end >= 0) ::close(end);
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  bool good() const { return thread_.joinable(); }
  // The command has ended: takes what is still in the pipe. Error: why the file is not what it should be.
  Status finish() {
    if (!thread_.joinable()) return status_;
    ::close(stop_[1]);
    stop_[1] = -1;
    thread_.join();
    return status_;
  }

 private:
  void run() {
    for (bool ended = false;;) {
      pollfd files[] = {{pipe_.file(), POLLIN, 0}, {ended ? -1 : stop_[0], POLLIN, 0}};
      const int ready = poll(files, 2, ended ? 0 : -1);
      if (ready < 0 && errno == EINTR) continue;
      if (ready < 0) {
        status_ = Error{ErrorCode::internal, std::strerror(errno)};
        return;
      }
      if ((files[0].revents & POLLIN) != 0) {
        take();
        continue;
      }
      if (ended || files[0].revents != 0) return;
      ended = files[1].revents != 0;
    }
  }

  // After a failure too: the program must not have to wait.
  void take() {
    const ssize_t got = ::read(pipe_.file(), piece_.data(), piece_.size());
    if (got > 0 && status_) status_ = file_.write({piece_.data(), static_cast<std::size_t>(got)});
  }

  NamedPipe& pipe_;
  CompressedFile& file_;
  int stop_[2] = {-1, -1};
  std::vector<char> piece_ = std::vector<char>(256 << 10);
  Status status_ = Done{};
  std::thread thread_;
};

// Pipes and links stay.
void remove_regular(const fs::path& file) {
  std::error_code error;
  if (fs::symlink_status(file, error).type() == fs::file_type::regular) fs::remove(file, error);
}

}  // namespace

int record_command(const RecordOptions& options) {
  auto file = CompressedFile::create(options.output);
  if (!file)
    return complain("record",
                    {exit_bad_usage, fmt::format("-o '{}': {}", options.output, file.error().message)});
  NamedPipe pipe;
  if (!pipe.good())
    return complain("record", {exit_failed, "no named pipe can be made in the temporary folder"});
  Relay relay(pipe, *file);
  if (!relay.good()) return complain("record", {exit_failed, "no pipe can be made"});
  setenv("POOCH_RECORD", pipe.path().c_str(), 1);

  const int code = run_command(options.run);
  Status kept = relay.finish();
  if (kept) kept = file->finish();
  if (!kept) {
    complain("record", {exit_failed, fmt::format("'{}': {}", options.output, kept.error().message)});
    return code != 0 ? code : exit_failed;
  }
  if (file->bytes_in() == 0) {
    remove_regular(options.output);
    // A command that failed has said why itself.
    return code != 0 ? code
                     : complain("record",
                                {exit_failed, "the command used no memory of a GPU: nothing is recorded"});
  }
  say("pooch: recorded {} of calls in {}\n", format_bytes(file->bytes_in()), format_bytes(file->bytes_out()));
  return code;
}

}  // namespace pooch::tools
