// Where CUDA's libraries lie if the system's loader does not find them: a toolkit, or NVIDIA's Python wheels.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pooch::tools {

// For each of `libraries` (file names) that the loader does not find, the first folder that has it. Toolkits
// come before the wheels that the first `python3` in PATH imports.
std::vector<std::filesystem::path> folders_of_missing(const std::vector<std::string>& libraries);

}  // namespace pooch::tools
