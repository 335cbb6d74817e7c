// Limits and places: what the kernel says of this process and of the device's slot.
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>

#include "core/bytes.h"
#include "core/config.h"
#include "core/host_memory.h"
#include "doctor_findings.h"

namespace pooch::tools {
namespace fs = std::filesystem;
namespace {

// Below this, hardly any network's feature maps have room in host memory.
constexpr std::uint64_t little_memory = std::uint64_t{4} << 30;

std::string first_line(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

Finding look_at_memlock(bool software_device) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {"memlock", Level::ok, "unlimited", ""};
  const std::string text = format_bytes(limit.rlim_cur);
  if (software_device) return {"memlock", Level::ok, text + "; a software GPU locks nothing", ""};
  return {"memlock", Level::warning, text,
          "ulimit -l unlimited (a service: LimitMEMLOCK=infinity; a container: --ulimit memlock=-1)"};
}

Finding look_at_host_memory() {
  const std::uint64_t all = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                            static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
  const std::uint64_t available = available_host_memory();
  std::string text = format_bytes(available);
  text += available < all ? fmt::format(" by a control group's limit; the machine has {}", format_bytes(all))
                          : ", all that the machine has";
  if (available >= little_memory) return {"host memory", Level::ok, text, ""};
  return {"host memory", Level::warning, text,
          "feature maps move to host memory: raise the limit of the container, or choose a larger machine"};
}

}  // namespace

Findings look_at_limits(bool software_device) {
  return {look_at_memlock(software_device), look_at_host_memory()};
}

Findings look_at_bus(const std::string& bus_id, const fs::path& sysfs) {
  std::string name = bus_id;
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const fs::path slot = sysfs / "bus/pci/devices" / name;
  Findings all;
  const std::string node = first_line(slot / "numa_node");
  if (node.empty()) {
    all.push_back({"NUMA node", Level::ok, fmt::format("not visible in sysfs for {}", bus_id), ""});
  } else {
    all.push_back({"NUMA node", Level::ok, node == "-1" ? "the machine has only one" : node, ""});
  }
  const std::string width = first_line(slot / "current_link_width"),
                    widest = first_line(slot / "max_link_width");
  if (width.empty() || width == "0") {
    all.push_back({"link", Level::ok, "not visible in sysfs (virtual machines and NVLink hide it)", ""});
    return all;
  }
  const std::string text =
      fmt::format("{} of {} lanes, {}", width, widest, first_line(slot / "current_link_speed"));
  if (width == widest) {
    all.push_back({"link", Level::ok, text, ""});
  } else {
    all.push_back({"link", Level::warning, text,
                   "swapping goes at the link's speed: move the card to a slot with all lanes"});
  }
  return all;
}

}  // namespace pooch::tools
