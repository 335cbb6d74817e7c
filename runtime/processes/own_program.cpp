#include "runtime/processes/own_program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace pooch::runtime {
namespace fs = std::filesystem;
namespace {

// Of the library (or test program) that holds this code. dladdr() would give the path as LD_PRELOAD has it,
// which may be relative to a folder that the program has left.
fs::path library_folder() {
  const auto here = reinterpret_cast<std::uintptr_t>(&library_folder);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0, end = 0;
    const std::size_t path = line.find('/');
    if (path == std::string::npos || std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) != 2) continue;
    if (here >= begin && here < end) return fs::path(line.substr(path)).parent_path();
  }
  return {};
}

// Installed, side by side, and in a build folder.
std::vector<fs::path> places_beside(const fs::path& folder) {
  std::vector<fs::path> places;
  for (const char* each : {"../bin/pooch", "../../bin/pooch", "pooch", "../tools/pooch"})
    places.push_back((folder / each).lexically_normal());
  return places;
}

bool can_be_run(const fs::path& program) {
  std::error_code error;
  return fs::is_regular_file(program, error) && access(program.c_str(), X_OK) == 0;
}

}  // namespace

Result<std::string> find_own_program(const std::string& chosen, const std::string& beside) {
  std::error_code error;
  std::vector<fs::path> places{fs::absolute(chosen, error)};
  if (chosen.empty()) places = places_beside(beside.empty() ? library_folder() : fs::path(beside));
  std::vector<std::string> names;
  for (const fs::path& place : places) {
    if (can_be_run(place)) return place.string();
    names.push_back(place.string());
  }
  return Error{ErrorCode::invalid_argument, fmt::format("there is no program {}", fmt::join(names, " or "))};
}

std::vector<std::string> own_environment() {
  std::vector<std::string> kept;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("LD_PRELOAD=") && !text.starts_with("POOCH_")) kept.emplace_back(text);
  }
  return kept;
}

std::string file_version(const std::string& path) {
  struct stat facts {};
  if (stat(path.c_str(), &facts) != 0) return {};
  return fmt::format("{}-{}.{:09}", facts.st_size, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
}

}  // namespace pooch::runtime
