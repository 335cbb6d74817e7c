// What --device says: the real GPU, or a software one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "core/result.h"
#include "environment.h"
#include "softgpu/device_options.h"

namespace pooch::tools {

struct SoftDevice {
  std::string model;
  softgpu::DeviceOptions options;

  // "v100-pcie3:timing:memory=1073741824", as the software GPU reads it from SOFTGPU_DEVICE.
  std::string to_string() const;
};

// What the tools ask of the model's machine.
struct ModelMachine {
  std::uint64_t host_bytes = 0;       // what a timing run may page-lock, since it touches none of it
  double to_device = 0, to_host = 0;  // bytes per second of the link
};
// Error: invalid_argument, the file, and what is wrong with it.
Result<ModelMachine> read_model(const SoftDevice& device, const std::filesystem::path& softgpu_folder);

// Makes programs find the software GPU in `softgpu_folder`: by LD_LIBRARY_PATH, and by LD_PRELOAD those of
// its libraries that a program may bring itself, as PyTorch's wheels do: their DT_RPATH goes before
// LD_LIBRARY_PATH, but a library that is already loaded under the same SONAME goes before both.
void use_soft_device(const SoftDevice& device, const std::filesystem::path& softgpu_folder,
                     Environment& environment);

// "real" gives nothing. Otherwise
// "soft:MODEL[:OPTION]...", where `softgpu_folder` has models/MODEL.json and the options are those of
// softgpu/device_options.h. Errors: invalid_argument, "'text': " and what is accepted.
Result<std::optional<SoftDevice>> parse_device(std::string_view text,
                                               const std::filesystem::path& softgpu_folder);

}  // namespace pooch::tools
