// Whole files in, whole files out.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/result.h"

namespace pooch::tools {

// Error: invalid_argument, the reason without the file's name.
Result<std::string> read_text(const std::string& path);

// Where an output is to go: `-` is stdout.
std::string output_path(const std::string& path);
// Whether it goes where stdout goes, under whatever name.
bool is_stdout(const std::string& path);

// As OutputFile does (core/files.h), and `-` is stdout. Error: invalid_argument, the reason without the
// file's name; then nothing is left behind.
Status write_text(const std::string& path, std::string_view text);

// 0, or exit_failed after a line on stderr that begins with the command's name.
int print_text(std::string_view command, std::string_view text);

// On stderr. A reader that went away is no harm.
void say_text(std::string_view text);
template <class... Args>
void say(fmt::format_string<Args...> format, Args&&... args) {
  say_text(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace pooch::tools
