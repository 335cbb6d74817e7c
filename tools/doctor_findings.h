// What `pooch doctor` looks at, in parts. Internal to it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"

namespace pooch::tools {

enum class Level { ok, warning, problem };

struct Finding {
  std::string name;
  Level level = Level::ok;
  std::string text;
  std::string cure;  // one line; empty where all is well
};
using Findings = std::vector<Finding>;

// Whether a shell would find it.
bool is_there(const std::string& command);
// The program after "--": 64 bits, linked dynamically, not setuid, and which CUDA runtime it brings.
Findings look_at_program(const std::string& command);
// The same, and whether the script is there where that is an interpreter of Python.
Findings look_at_command(const std::vector<std::string>& command);

// Limits of this process: page-locked memory, memory of the control group.
Findings look_at_limits(bool software_device);

// NUMA node and link of the device at `bus_id` ("0000:3B:00.0"), by sysfs.
Findings look_at_bus(const std::string& bus_id, const std::filesystem::path& sysfs = "/sys");

// What a driver and libraries answer to a program. Empty texts, nothing, 0: there was no answer.
struct Answers {
  std::string by_dlsym, by_proc_address;  // the library whose cuMemAlloc is found
  std::optional<std::uint32_t> driver_version, init;
  std::string device, bus_id;
  std::string runtime, cupti;  // paths
  std::uint32_t runtime_version = 0;
  std::uint64_t cudnn_version = 0;
};
std::string to_json(const Answers& answers);
// Error: invalid_argument, one line.
Result<Answers> answers_from_json(std::string_view text);

// In a child that runs as a program would, under LD_PRELOAD and on the chosen device: asks and writes the
// answers. Returns the child's exit code.
int probe(const std::string& file);

// The probe's answers, judged. `preloaded`: libpooch.so was there to be preloaded.
Findings judge_probe(const Answers& answers, bool software_device, bool preloaded);

}  // namespace pooch::tools
