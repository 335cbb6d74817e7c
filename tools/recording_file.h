// Recordings as they lie on disk: compressed by zstd, or as the library wrote them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/profile.h"
#include "core/result.h"

namespace pooch::tools {

// Compresses a stream into a file that can be read up to where it stops.
class CompressedFile {
 public:
  // Error: invalid_argument, the reason why the file cannot be written. `-` is stdout.
  static Result<CompressedFile> create(const std::string& path);
  CompressedFile(CompressedFile&& other) noexcept;
  CompressedFile& operator=(CompressedFile&&) = delete;
  ~CompressedFile();

  Status write(std::string_view bytes);
  // Nothing comes any more.
  Status finish();
  std::uint64_t bytes_in() const { return bytes_in_; }
  std::uint64_t bytes_out() const { return bytes_out_; }

 private:
  struct Compressor;
  struct Deleter {
    void operator()(Compressor* compressor) const;
  };
  explicit CompressedFile(int file) : file_(file) {}
  Status compress(std::string_view bytes, bool last);

  int file_;  // -1: closed
  std::unique_ptr<Compressor, Deleter> compressor_;
  std::uint64_t bytes_in_ = 0, bytes_out_ = 0;
};

struct RecordedRun {
  Profile profile;
  bool complete = false;  // else it stops before the program's own end
};

// What a recording tells of the network; nothing where the file is something else. Errors: invalid_argument,
// what cannot be read or is wrong, without the file's name.
Result<std::optional<RecordedRun>> read_recording(const std::string& path);

}  // namespace pooch::tools
