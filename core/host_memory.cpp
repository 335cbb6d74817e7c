#include "core/host_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

namespace pooch {
namespace {

std::optional<std::uint64_t> number_in(const std::string& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  if (in >> number) return number;  // "max" is none
  return std::nullopt;
}

// Of a file of lines "NAME NUMBER …".
std::optional<std::uint64_t> number_of(const std::string& file, std::string_view name) {
  std::ifstream in(file);
  for (std::string word; in >> word;) {
    std::uint64_t number = 0;
    if (word == name && in >> number) return number;
    in.clear();
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

struct MemoryGroup {
  std::uint64_t limit;
  std::uint64_t used;  // without cached files that nobody uses
};

std::optional<MemoryGroup> read_group(const std::string& folder, bool v2) {
  const auto limit = number_in(folder + (v2 ? "/memory.max" : "/memory.limit_in_bytes"));
  if (!limit || *limit == 0) return std::nullopt;
  const auto used = number_in(folder + (v2 ? "/memory.current" : "/memory.usage_in_bytes"));
  const auto idle = number_of(folder + "/memory.stat", v2 ? "inactive_file" : "total_inactive_file");
  const std::uint64_t taken = used.value_or(0);
  return MemoryGroup{*limit, taken - std::min(taken, idle.value_or(0))};
}

// Every cgroup with a limit of memory that binds this process, ancestors among them.
template <class See>
void each_group(const HostMemoryFiles& files, See&& see) {
  std::ifstream groups(files.proc + "/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    // v2: "0::/path"; v1: "N:memory:/path". Every ancestor's limit binds.
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool v2 = controllers.empty();
    if (!v2 && controllers.find("memory") == std::string::npos) continue;
    const std::string root = files.groups + (v2 ? "" : "/memory");
    for (std::string path = line.substr(second + 1);; path.erase(path.rfind('/'))) {
      if (path == "/") path.clear();
      if (const auto group = read_group(root + path, v2)) see(*group);
      if (path.rfind('/') == std::string::npos) break;
    }
  }
}

}  // namespace

std::uint64_t available_host_memory(const HostMemoryFiles& files) {
  std::uint64_t least = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  each_group(files, [&](const MemoryGroup& group) { least = std::min(least, group.limit); });
  return least;
}

std::uint64_t unused_host_memory(const HostMemoryFiles& files) {
  std::uint64_t least = number_of(files.proc + "/meminfo", "MemAvailable:").value_or(0) << 10;
  each_group(files, [&](const MemoryGroup& group) {
    least = std::min(least, group.limit - std::min(group.limit, group.used));
  });
  return least;
}

}  // namespace pooch
