// The host's memory, as the system tells of it. Bytes.
#pragma once

#include <cstdint>
#include <string>

namespace pooch {

// Where it tells; tests have folders of their own.
struct HostMemoryFiles {
  std::string proc = "/proc", groups = "/sys/fs/cgroup";
};

// What this process may have: the least of physical memory and the cgroup limits that bind it.
std::uint64_t available_host_memory(const HostMemoryFiles& files = {});

// What may be written to now without taking it from anybody: the least of what the system has and of what
// each cgroup leaves. Cached files that nobody uses count as free. 0 where the system does not tell.
std::uint64_t unused_host_memory(const HostMemoryFiles& files = {});

}  // namespace pooch
