#include "core/log.h"

#include <unistd.h>

#include <fcntl.h>
#include <atomic>
#include <cstdio>

namespace pooch::log {
namespace {
std::atomic<LogLevel> threshold{LogLevel::warn};
std::atomic<int> output{STDERR_FILENO};
constexpr const char* prefixes[] = {"error: ", "warning: ", "", "debug: "};
}  // namespace

void configure(LogLevel level, const std::string& file) {
  threshold = level;
  if (file.empty()) return;
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd >= 0) {
    output = fd;
  } else {
    warn("POOCH_LOG_FILE: '{}' cannot be written; logging to stderr", file);
  }
}

bool enabled(LogLevel level) {
  return level <= threshold.load(std::memory_order_relaxed);
}

void write(LogLevel level, std::string_view message) {
  // One write call per line, so that lines of several processes do not mix.
  const std::string line = fmt::format("pooch: {}{}\n", prefixes[static_cast<int>(level)], message);
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t n = ::write(output, line.data() + done, line.size() - done);
    if (n <= 0) return;
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace pooch::log
