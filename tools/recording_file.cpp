#include "recording_file.h"

#include <fmt/core.h>
#include <unistd.h>
#include <zstd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "core/files.h"
#include "core/recording.h"
#include "text_file.h"
#include "tracker/recorded_profile.h"

namespace pooch::tools {

// --- writing

struct CompressedFile::Compressor {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  std::vector<char> out = std::vector<char>(ZSTD_CStreamOutSize());
  ~Compressor() { ZSTD_freeCCtx(context); }
};

void CompressedFile::Deleter::operator()(Compressor* compressor) const {
  delete compressor;
}

Result<CompressedFile> CompressedFile::create(const std::string& path) {
  const auto file = open_stream(output_path(path), {.waits = true});
  if (!file) return file.error();
  CompressedFile made(*file);
  made.compressor_.reset(new Compressor);
  if (made.compressor_->context == nullptr) return Error{ErrorCode::internal, "zstd cannot be started"};
  // Iterations are alike: a window that holds some of them makes all but the first nearly free.
  for (const auto& [parameter, value] : {std::pair(ZSTD_c_compressionLevel, 6),
                                         std::pair(ZSTD_c_windowLog, 23), std::pair(ZSTD_c_checksumFlag, 1)})
    if (const std::size_t set = ZSTD_CCtx_setParameter(made.compressor_->context, parameter, value);
        ZSTD_isError(set) != 0)
      return Error{ErrorCode::internal, fmt::format("zstd: {}", ZSTD_getErrorName(set))};
  return made;
}

CompressedFile::CompressedFile(CompressedFile&& other) noexcept
    : file_(std::exchange(other.file_, -1)),
      compressor_(std::move(other.compressor_)),
      bytes_in_(other.bytes_in_),
      bytes_out_(other.bytes_out_) {}

CompressedFile::~CompressedFile() {
  if (file_ >= 0) ::close(file_);
}

Status CompressedFile::compress(std::string_view bytes, bool last) {
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  for (;;) {
    ZSTD_outBuffer out{compressor_->out.data(), compressor_->out.size(), 0};
    const std::size_t left =
        ZSTD_compressStream2(compressor_->context, &out, &in, last ? ZSTD_e_end : ZSTD_e_flush);
    if (ZSTD_isError(left) != 0)
      return Error{ErrorCode::internal, fmt::format("zstd: {}", ZSTD_getErrorName(left))};
    const std::string_view piece(compressor_->out.data(), out.pos);
    if (const int reason = write_all(file_, piece); reason != 0) return file_error(reason);
    bytes_out_ += out.pos;
    if (left == 0) return Done{};
  }
}

Status CompressedFile::write(std::string_view bytes) {
  bytes_in_ += bytes.size();
  return compress(bytes, /*last=*/false);
}

Status CompressedFile::finish() {
  if (const Status written = compress({}, /*last=*/true); !written) return written;
  if (::close(std::exchange(file_, -1)) != 0) return file_error(errno);
  return Done{};
}

// --- reading

namespace {

constexpr std::string_view zstd_magic = "\x28\xb5\x2f\xfd";

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

Result<std::size_t> read_some(std::FILE* file, std::span<char> into) {
  const std::size_t got = std::fread(into.data(), 1, into.size(), file);
  if (got == 0 && std::ferror(file) != 0) return file_error(errno);
  return got;
}

// A source for RecordingReader: what the compressed file holds. One that stops in the middle ends there.
class Decompressed {
 public:
  explicit Decompressed(std::FILE* file)
      : file_(file), context_(ZSTD_createDCtx(), &ZSTD_freeDCtx), in_(ZSTD_DStreamInSize()) {}

  Result<std::size_t> operator()(std::span<char> into) {
    if (context_ == nullptr) return Error{ErrorCode::internal, "zstd cannot be started"};
    ZSTD_outBuffer out{into.data(), into.size(), 0};
    while (out.pos == 0) {
      if (have_.pos == have_.size) {
        const auto got = read_some(file_, in_);
        if (!got || *got == 0) return got;
        have_ = {in_.data(), *got, 0};
      }
      const std::size_t wanted = ZSTD_decompressStream(context_.get(), &out, &have_);
      if (ZSTD_isError(wanted) != 0)
        return Error{ErrorCode::invalid_argument, fmt::format("zstd: {}", ZSTD_getErrorName(wanted))};
    }
    return out.pos;
  }

 private:
  std::FILE* file_;
  std::unique_ptr<ZSTD_DCtx, std::size_t (*)(ZSTD_DCtx*)> context_;
  std::vector<char> in_;
  ZSTD_inBuffer have_{nullptr, 0, 0};
};

}  // namespace

Result<std::optional<RecordedRun>> read_recording(const std::string& path) {
  std::error_code error;  // whoever reads a pipe after us must find it whole
  if (!std::filesystem::is_regular_file(path, error)) return std::optional<RecordedRun>{};
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return file_error(errno);
  std::array<char, recording_magic.size()> first{};
  const auto got = read_some(file.get(), first);
  if (!got) return got.error();
  const std::string_view start(first.data(), *got);
  const bool compressed = start.starts_with(zstd_magic);
  if (!compressed && start != recording_magic) return std::optional<RecordedRun>{};
  std::rewind(file.get());

  RecordingReader::Source source = [&](std::span<char> into) { return read_some(file.get(), into); };
  const auto decompressed = std::make_shared<Decompressed>(file.get());
  if (compressed) source = [decompressed](std::span<char> into) { return (*decompressed)(into); };
  auto reader = RecordingReader::open(source);
  if (!reader) return reader.error();
  const auto profile = tracker::profile_of(*reader);
  if (!profile) return profile.error();
  return std::optional<RecordedRun>{{std::move(*profile), reader->complete()}};
}

}  // namespace pooch::tools
