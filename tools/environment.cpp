#include "environment.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace pooch::tools {
namespace {

bool is_sanitizer_runtime(std::string_view library) {
  const std::string_view name = library.substr(library.rfind('/') + 1);
  return name.starts_with("libasan.") || name.starts_with("libtsan.") || name.starts_with("libubsan.") ||
         name.starts_with("libclang_rt.");
}

// LD_PRELOAD is separated by spaces or colons.
std::vector<std::string> split_preload(const std::string& value) {
  std::vector<std::string> libraries(1);
  for (const char c : value) {
    if (c == ' ' || c == ':') {
      libraries.emplace_back();
    } else {
      libraries.back() += c;
    }
  }
  std::erase(libraries, "");
  return libraries;
}

}  // namespace

Environment Environment::current() {
  Environment environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (const char* equals = std::strchr(*entry, '=')) {
      environment.variables_.emplace(std::string(*entry, static_cast<std::size_t>(equals - *entry)),
                                     equals + 1);
    }
  }
  return environment;
}

const std::string* Environment::find(const std::string& name) const {
  const auto found = variables_.find(name);
  return found == variables_.end() ? nullptr : &found->second;
}

void Environment::put_first(const std::string& name, const std::string& entry) {
  std::string& value = variables_[name];
  value = value.empty() ? entry : entry + ":" + value;
}

void Environment::put_last(const std::string& name, const std::string& entry) {
  std::string& value = variables_[name];
  value = value.empty() ? entry : value + ":" + entry;
}

void Environment::preload(const std::string& library) {
  std::string& value = variables_["LD_PRELOAD"];
  std::vector<std::string> libraries = split_preload(value);
  const auto behind = std::find_if_not(libraries.begin(), libraries.end(), is_sanitizer_runtime);
  libraries.insert(behind, library);
  value.clear();
  for (const std::string& each : libraries) value += (value.empty() ? "" : ":") + each;
}

std::vector<std::string> Environment::entries() const {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables_) entries.push_back(fmt::format("{}={}", name, value));
  return entries;
}

}  // namespace pooch::tools
