#include "text_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "run_command.h"

namespace pooch::tools {
namespace {

Error failed(int reason) {
  return {ErrorCode::invalid_argument, std::strerror(reason)};
}

// 0, or the errno.
int write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return errno;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return 0;
}

}  // namespace

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return failed(errno);
  std::string text;
  std::vector<char> piece(1 << 20);
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get()))
    text.append(piece.data(), got);
  if (std::ferror(file.get()) != 0) return failed(errno);  // a folder, for one
  return text;
}

Status write_text(const std::string& path, std::string_view text) {
  const std::string beside = fmt::format("{}.{}.new", path, getpid());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return failed(errno);
  int reason = write_all(file, text);
  if (::close(file) != 0 && reason == 0) reason = errno;
  if (reason == 0 && std::rename(beside.c_str(), path.c_str()) != 0) reason = errno;
  if (reason == 0) return Done{};
  unlink(beside.c_str());
  return failed(reason);
}

int print_text(std::string_view command, std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return 0;
  fmt::print(stderr, "pooch: error: {}: the output could not be written: {}\n", command,
             std::strerror(errno));
  return exit_failed;
}

}  // namespace pooch::tools
