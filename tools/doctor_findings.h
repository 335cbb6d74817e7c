// What `pooch doctor` looks at, in parts. Internal to it.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace pooch::tools {

enum class Level { ok, warning, problem };

struct Finding {
  std::string name;
  Level level = Level::ok;
  std::string text;
  std::string cure;  // one line; empty where all is well
};
using Findings = std::vector<Finding>;

// The program after "--": 64 bits, linked dynamically, not setuid, and which CUDA runtime it brings.
Findings look_at_program(const std::string& command);

// Limits of this process: page-locked memory, memory of the control group.
Findings look_at_limits(bool software_device);

// NUMA node and link of the device at `bus_id` ("0000:3B:00.0"), by sysfs.
Findings look_at_bus(const std::string& bus_id, const std::filesystem::path& sysfs = "/sys");

// In a child that runs as a program would, under LD_PRELOAD and on the chosen device: what its driver and
// libraries answer. Returns the child's exit code.
int probe(const std::string& file);

// The probe's answers, judged. `preloaded`: libpooch.so was there to be preloaded.
Findings judge_probe(const nlohmann::json& answers, bool software_device, bool preloaded);

}  // namespace pooch::tools
