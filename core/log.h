// One line per message to stderr or POOCH_LOG_FILE, never to stdout: `pooch: warning: …`.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/config.h"

namespace pooch::log {

void configure(LogLevel level, const std::string& file);
bool enabled(LogLevel level);
void write(LogLevel level, std::string_view message);
// As `write` shows it: on one line and of limited length. What would move a terminal's cursor, or change how
// text beside it reads, is escaped: messages hold names and settings from any source.
std::string printable(std::string_view text);
// The latest warning or error that was written; empty: there was none.
std::string last_warning();

template <class... Args>
void error(fmt::format_string<Args...> format, Args&&... args) {
  write(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}
// Why a call of the program fails. A failure in one thread often hits others too: their lines within a second
// of the first one are at level info.
void failure(std::string_view message);
template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(LogLevel::warn)) write(LogLevel::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(LogLevel::info)) write(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void debug(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(LogLevel::debug)) write(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pooch::log
