#include "device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "core/bytes.h"
#include "core/json_cursor.h"
#include "text_file.h"

namespace pooch::tools {
namespace {

constexpr std::string_view prefix = "soft:";
// Last to first. The driver is no program's own.
constexpr std::string_view preloaded[] = {"libsoftgpu_absent.so.1", "libcupti.so.13",  "libcudnn.so.9",
                                          "libcublasLt.so.13",      "libcublas.so.13", "libnccl.so.2",
                                          "libcudart.so.13"};

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon; (colon = text.find(':')) != std::string_view::npos; text.remove_prefix(colon + 1)) {
    parts.push_back(text.substr(0, colon));
  }
  parts.push_back(text);
  return parts;
}

std::vector<std::string> models_in(const std::filesystem::path& softgpu_folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(softgpu_folder / "models", error)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Error bad_device(std::string_view text, std::string_view why) {
  return {ErrorCode::invalid_argument, fmt::format("'{}': {}", text, why)};
}

}  // namespace

std::string SoftDevice::to_string() const {
  return model + softgpu::to_string(options);
}

Result<ModelMachine> read_model(const SoftDevice& device, const std::filesystem::path& softgpu_folder) {
  const auto path = softgpu_folder / "models" / (device.model + ".json");
  const auto wrong = [&](const std::string& why) {
    return Error{ErrorCode::invalid_argument, fmt::format("{}: {}", path.string(), why)};
  };
  const auto text = read_text(path.string());
  if (!text) return wrong(text.error().message);
  std::optional<std::uint64_t> host_bytes;
  std::optional<double> to_device, to_host;
  JsonCursor in(*text);
  in.members([&](std::string_view key) {
    if (key == "host_bytes") {
      in.whole(host_bytes.emplace(), std::numeric_limits<std::uint64_t>::max());
    } else if (key == "link") {
      in.members([&](std::string_view way) {
        auto* const rate = way == "to_device" ? &to_device : way == "to_host" ? &to_host : nullptr;
        if (rate == nullptr) return in.skip();
        rate->emplace(in.real(std::numeric_limits<double>::max()));
      });
    } else {
      in.skip();
    }
  });
  in.finish();
  if (!in.good()) return wrong(in.error());
  for (const auto& [there, key] : {std::pair(host_bytes.has_value(), "/host_bytes"),
                                   {to_device.has_value(), "/link/to_device"},
                                   {to_host.has_value(), "/link/to_host"}})
    if (!there) return wrong(fmt::format("{} is missing", key));
  return ModelMachine{*host_bytes, *to_device, *to_host};
}

void use_soft_device(const SoftDevice& device, const std::filesystem::path& softgpu_folder,
                     Environment& environment) {
  environment.set("SOFTGPU_DEVICE", device.to_string());
  environment.put_first("LD_LIBRARY_PATH", softgpu_folder.string());
  for (const std::string_view library : preloaded) environment.preload((softgpu_folder / library).string());
}

Result<std::optional<SoftDevice>> parse_device(std::string_view text,
                                               const std::filesystem::path& softgpu_folder) {
  if (text == "real") return std::optional<SoftDevice>{};
  if (!text.starts_with(prefix)) {
    return bad_device(text, "accepted are real and soft:MODEL[:OPTION]..., as in soft:v100-pcie3:timing");
  }
  const std::vector<std::string_view> parts = split(text.substr(prefix.size()));
  SoftDevice device;
  device.model = parts[0];
  const std::vector<std::string> models = models_in(softgpu_folder);
  if (std::find(models.begin(), models.end(), device.model) == models.end()) {
    if (models.empty()) return bad_device(text, fmt::format("no models in {}", softgpu_folder.string()));
    return bad_device(text, fmt::format("accepted models are {}", fmt::join(models, ", ")));
  }
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (!softgpu::read_option(parts[i], device.options))
      return bad_device(text, fmt::format("'{}': accepted are {}", parts[i], softgpu::accepted_options));
  return std::optional<SoftDevice>{device};
}

}  // namespace pooch::tools
