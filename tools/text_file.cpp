#include "text_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "core/files.h"
#include "run_command.h"

namespace pooch::tools {

Result<std::string> read_text(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) return file_error(errno);
  std::string text;
  std::vector<char> piece(1 << 20);
  while (const std::size_t got = std::fread(piece.data(), 1, piece.size(), file.get()))
    text.append(piece.data(), got);
  if (std::ferror(file.get()) != 0) return file_error(errno);  // a folder, for one
  return text;
}

std::string output_path(const std::string& path) {
  return path == "-" ? "/dev/stdout" : path;
}

bool is_stdout(const std::string& path) {
  struct stat output {
  }, own{};
  return path == "-" || (stat(path.c_str(), &output) == 0 && fstat(STDOUT_FILENO, &own) == 0 &&
                         output.st_dev == own.st_dev && output.st_ino == own.st_ino);
}

Status write_text(const std::string& path, std::string_view text) {
  std::fflush(stdout);  // what was printed before comes before it
  return write_whole(output_path(path), text, {.waits = true});
}

int print_text(std::string_view command, std::string_view text) {
  std::fflush(stdout);
  const int reason = write_all(STDOUT_FILENO, text);
  if (reason == 0) return 0;
  say("pooch: error: {}: the output could not be written: {}\n", command, std::strerror(reason));
  return exit_failed;
}

void say_text(std::string_view text) {
  (void)write_all(STDERR_FILENO, text);
}

}  // namespace pooch::tools
