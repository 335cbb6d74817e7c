// Any lines NAME=VALUE as the environment: read_config refuses them naming the variable, or understands them.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "core/config.h"
#include "core/log.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pooch;
  std::map<std::string, std::string, std::less<>> variables;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\x01'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    // As getenv gives it: to the first zero.
    variables[std::string(line.substr(0, equals))] = std::string(line.substr(equals + 1)).c_str();
  }
  const auto config = read_config([&](const char* name) -> const char* {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  });
  if (!config) {
    const std::string shown = log::printable(config.error().message);
    if (shown.empty() || shown.find('\n') != std::string::npos || !shown.starts_with("POOCH_")) std::abort();
    return 0;
  }
  for (const auto* setting : {&config->memory_cap, &config->host_memory})
    if (*setting && !(*setting)->resolve(std::uint64_t{16} << 30)) std::abort();
  (void)name(config->policy);
  return 0;
}
