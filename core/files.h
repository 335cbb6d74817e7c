// What pooch writes, and the files that it reads whole. None of it can harm the program: no signal, no wait
// for a pipe without a reader, no half-written file, no write through a planted link.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace pooch {

// The message is the reason alone; vendor_status is the errno.
Error file_error(int reason);

// Closed with its owner.
class OpenFile {
 public:
  explicit OpenFile(int number = -1) : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OpenFile();
  explicit operator bool() const { return number_ >= 0; }
  int number() const { return number_; }

 private:
  int number_;  // -1: none
};

// Writes all of `text`. Returns 0 or the errno. pooch writes files only through this: a pipe without a
// reader, or a file at its size limit (ulimit -f), is an error here and raises no signal.
int write_all(int file, std::string_view text);

struct OutputOptions {
  bool waits = false;     // for a pipe's reader; else a pipe without a reader is an error
  bool replaces = false;  // whatever is there, also a link or a pipe
  bool again = false;     // the file will be written again: not_supported if it cannot be replaced
  mode_t mode = 0666;     // of a new file, less the process's umask
};

// Writes a whole file. A regular file is written as a draft beside it, which then replaces it by renaming, so
// readers see the old file or the new one. Anything else (pipe, terminal, device) is written in place. Links
// are followed and stay; what they lead to is replaced. /dev/stdout, /dev/stderr and /dev/fd/N are this
// process's open files. A draft that is not committed is removed; drafts of killed writers are removed by the
// next writer.
class OutputFile {
 public:
  // Errors are file_error()s.
  static Result<OutputFile> open(const std::string& path, const OutputOptions& options = {});
  OutputFile(OutputFile&& other) noexcept
      : place_(std::move(other.place_)),
        draft_(std::move(other.draft_)),
        file_(std::exchange(other.file_, -1)),
        reason_(other.reason_) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  // The file is written in place, not replaced.
  bool direct() const { return draft_.empty(); }
  // After an error nothing more is written, and commit() returns the error.
  void append(std::string_view text);
  Status commit();

 private:
  OutputFile(std::string place, std::string draft, int file)
      : place_(std::move(place)), draft_(std::move(draft)), file_(file) {}

  std::string place_, draft_;  // draft_: empty if written in place
  int file_;                   // -1: closed
  int reason_ = 0;             // errno of the first failure
};

Status write_whole(const std::string& path, std::string_view text, const OutputOptions& options = {});

// For a stream that is useful before it is complete: opens the file itself, emptied, for write_all(). A
// regular file is locked; it is an error if another process writes such a stream there.
Result<int> open_stream(const std::string& path, const OutputOptions& options = {});

// A regular file of at most 64 MiB. Error: invalid_argument, the message is the reason alone.
Result<std::string> read_whole(const std::string& path);
// The same for a file that is open already, from its beginning on.
Result<std::string> read_whole(int file);

}  // namespace pooch
