// One run of the command that `pooch simulate` looks at, with all that it leaves kept in a folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"
#include "run_command.h"
#include "temporary_folder.h"

namespace pooch::tools {

using Variables = std::vector<std::pair<std::string, std::string>>;  // of the environment

// Takes out of this process's environment what would make one run unlike another, or write one file twice.
void forget_settings_of_runs();

// `pooch run`, in a process of its own, with `variables` set: its stdout goes into `folder`/stdout and is
// shown on stderr where it failed, as the reason may be there; profile.json is in `folder` where there is
// one. Returns the command's code. Error: internal, the output cannot be kept.
Result<int> run_into(const std::filesystem::path& folder, const RunOptions& run, Variables variables);

// Images per pass, of the last line of a command's output that is a JSON object with a `batch`. A command
// that trains several networks (`alternate`) says nothing about the main phase with it.
std::optional<std::uint64_t> batch_of(std::string_view output);

}  // namespace pooch::tools
