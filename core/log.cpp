#include "core/log.h"

#include <unistd.h>

#include <fcntl.h>
#include <pthread.h>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <iterator>
#include <mutex>

#include "core/files.h"
#include "core/utf8.h"

namespace pooch::log {
namespace {
std::atomic<LogLevel> threshold{LogLevel::warn};
std::atomic<int> output{STDERR_FILENO};
constexpr const char* prefixes[] = {"error: ", "warning: ", "", "debug: "};

// Ends of lines and paragraphs (U+2028, U+2029), and what turns the direction of text (U+202A to U+202E,
// U+2066 to U+2069).
bool changes_lines(std::string_view character) {
  return character.size() == 3 && character[0] == '\xe2' &&
         ((character[1] == '\x80' && character[2] >= '\xa8' && character[2] <= '\xae') ||
          (character[1] == '\x81' && character[2] >= '\xa6' && character[2] <= '\xa9'));
}
}  // namespace

void failure(std::string_view message) {
  static constinit std::mutex mutex;
  static constinit pthread_t speaker = {};
  static constinit std::chrono::steady_clock::time_point until = {};
  LogLevel level = LogLevel::error;
  {
    const std::lock_guard lock(mutex);
    const auto now = std::chrono::steady_clock::now();
    if (now < until && !pthread_equal(speaker, pthread_self())) {
      level = LogLevel::info;
    } else {
      speaker = pthread_self();
      until = now + std::chrono::seconds(1);
    }
  }
  if (enabled(level)) write(level, message);
}

void configure(LogLevel level, const std::string& file) {
  threshold = level;
  if (file.empty()) return;
  // Without O_NONBLOCK a pipe that nobody reads would hold up the program for good.
  constexpr int flags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
  const int fd = ::open(file.c_str(), flags, 0644);
  if (fd >= 0) {
    fcntl(fd, F_SETFL, O_APPEND);
    output = fd;
  } else {
    warn("POOCH_LOG_FILE: '{}' cannot be written; logging to stderr", file);
  }
}

bool enabled(LogLevel level) {
  return level <= threshold.load(std::memory_order_relaxed);
}

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 16 << 10;
  std::string shown;
  while (!text.empty()) {
    if (shown.size() > longest) return shown + "…";
    std::size_t bytes = utf8_character(text);
    const bool escaped = bytes == 0 || changes_lines(text.substr(0, bytes));
    bytes = std::max<std::size_t>(bytes, 1);
    for (const char c : text.substr(0, bytes)) {
      if (!escaped) {
        shown += c;
      } else if (c == '\n') {
        shown += "\\n";
      } else {
        shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      }
    }
    text.remove_prefix(bytes);
  }
  return shown;
}

namespace {
struct Latest {
  std::mutex mutex;
  std::array<char, 256> text{};
};
constinit Latest latest;
}  // namespace

std::string last_warning() {
  const std::lock_guard lock(latest.mutex);
  return latest.text.data();
}

void write(LogLevel level, std::string_view message) {
  if (level <= LogLevel::warn) {
    const std::lock_guard lock(latest.mutex);
    latest.text[message.copy(latest.text.data(), latest.text.size() - 1)] = 0;
  }
  // One write call per line, so that lines of several processes do not mix.
  (void)write_all(output,
                  fmt::format("pooch: {}{}\n", prefixes[static_cast<int>(level)], printable(message)));
}

}  // namespace pooch::log
