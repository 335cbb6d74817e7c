// What pooch writes, and what it reads as a whole. None of it harms the program that it happens in: no
// signal, no wait for a pipe that nobody uses, no file that is half there, nothing written through a planted
// link.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace pooch {

// The reason alone; vendor_status is the errno.
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

// All of it. 0, or the errno of what went wrong. The one place where pooch writes: a pipe whose reader went
// away, or a file as large as it may be (ulimit -f), is an error here and no signal.
int write_all(int file, std::string_view text);

struct OutputOptions {
  bool waits = false;     // for a pipe's reader; else one that nobody reads is an error
  bool replaces = false;  // whatever is there, be it a link or a pipe
  bool again = false;     // it is written again later: not_supported where it could not be replaced then
  mode_t mode = 0666;     // of a new file, less the process's umask
};

// A whole file: a regular one is written as a draft beside it and replaced by renaming, so whoever looks sees
// the old file or the new one. Anything else (pipe, terminal, device) is written to. Links are followed: what
// they lead to is replaced, and they stay. /dev/stdout, /dev/stderr and /dev/fd/N are what this process has
// open there. A draft that is not committed is removed; those of killed writers are, too, by the next one.
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

  // It is written to as it is, not replaced.
  bool direct() const { return draft_.empty(); }
  // After an error nothing more is written, and commit() brings the error.
  void append(std::string_view text);
  Status commit();

 private:
  OutputFile(std::string place, std::string draft, int file)
      : place_(std::move(place)), draft_(std::move(draft)), file_(file) {}

  std::string place_, draft_;  // draft_: empty where it is written to directly
  int file_;                   // -1: closed
  int reason_ = 0;             // errno of the first failure
};

Status write_whole(const std::string& path, std::string_view text, const OutputOptions& options = {});

// For a stream that is worth something before its end: the file itself, emptied, for write_all(). A regular
// one is locked: while another process writes such a stream there, this is an error.
Result<int> open_stream(const std::string& path, const OutputOptions& options = {});

// A regular file of at most 64 MiB. Error: invalid_argument, the reason alone.
Result<std::string> read_whole(const std::string& path);
// The same for a file that is open already, from its beginning on.
Result<std::string> read_whole(int file);

}  // namespace pooch
