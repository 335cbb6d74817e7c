// Whole files in, whole files out.
#pragma once

#include <string>
#include <string_view>

#include "core/result.h"

namespace pooch::tools {

// Error: invalid_argument, the reason without the file's name.
Result<std::string> read_text(const std::string& path);

// Writes beside `path` and renames: whoever looks sees the old file or the whole new one. Error:
// invalid_argument, the reason without the file's name; then nothing is left behind.
Status write_text(const std::string& path, std::string_view text);

// 0, or exit_failed after a line on stderr that begins with the command's name.
int print_text(std::string_view command, std::string_view text);

}  // namespace pooch::tools
