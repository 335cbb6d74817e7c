// The host's memory, as the system reports it, in bytes.
#pragma once

#include <cstdint>
#include <string>

namespace pooch {

// Where the system reports it; tests have their own folders.
struct HostMemoryFiles {
  std::string proc = "/proc", groups = "/sys/fs/cgroup";
};

// What this process may use at most: the minimum of physical memory and the cgroup limits that bind it.
std::uint64_t available_host_memory(const HostMemoryFiles& files = {});

// What can be written to now without taking it from others: the minimum of the system's available memory and
// what each cgroup has left. Cached files that nobody uses count as free. 0: the system does not report it.
std::uint64_t unused_host_memory(const HostMemoryFiles& files = {});

}  // namespace pooch
