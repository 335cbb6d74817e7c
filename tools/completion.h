// `pooch completion`: what a shell needs to complete commands and options.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace pooch::tools {

// A script for bash, of the app's commands and their options: `source <(pooch completion)`.
std::string bash_completion(const CLI::App& app);

}  // namespace pooch::tools
