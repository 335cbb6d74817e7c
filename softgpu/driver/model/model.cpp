#include "softgpu/driver/model/model.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace softgpu {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

std::string known_models(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names.empty() ? fmt::format("none found in '{}'", folder)
                       : fmt::format("{}", fmt::join(names, ", "));
}

void read_costs(const json& costs, Model& m) {
  auto get = [&](const char* key) { return static_cast<Nanoseconds>(costs.at(key).get<double>()); };
  m.api = get("api");
  m.launch = get("launch");
  m.copy_submit = get("copy_submit");
  m.event = get("event");
  m.query = get("query");
  m.synchronize = get("synchronize");
  m.allocate = get("allocate");
  m.free = get("free");
  m.pool = get("pool");
  m.create = get("vmm_create");
  m.map = get("vmm_map");
  m.set_access = get("vmm_set_access");
  m.set_access_per_handle = get("vmm_set_access_per_handle");
  m.set_access_beside_copies = get("vmm_set_access_beside_copies_to_host");
  m.unmap = get("vmm_unmap");
  m.unmap_per_handle = get("vmm_unmap_per_handle");
  m.destroy = get("vmm_destroy");
  m.reserve = get("vmm_reserve");
  m.context = get("context");
  m.module = get("module");
  m.host_function = get("host_function");
  m.pin_call = get("pin_call");
  m.profiled_call = costs.value("profiled_call", m.profiled_call);
  m.pin_per_byte = costs.at("pin_per_gb").get<double>() / 1e9;
}

void read_link(const json& link, Model& m) {
  m.to_device = link.at("to_device");
  m.to_host = link.at("to_host");
  m.host_copy = link.at("host_copy");
  m.copy_latency = link.at("latency_ns");
  m.both_ways = link.at("both_ways");
  if (!(m.both_ways > 0 && m.both_ways <= 1)) throw std::runtime_error("both_ways: accepted: above 0, to 1");
  m.host_memory = link.value("host_memory", 0.0);
  m.devices_per_switch = link.value("devices_per_switch", 1);
  if (m.devices_per_switch > 1) m.switch_uplink = link.at("switch_uplink");
  if (m.host_memory < 0 || m.devices_per_switch < 1 || (m.devices_per_switch > 1 && !(m.switch_uplink > 0)))
    throw std::runtime_error("host_memory, devices_per_switch and switch_uplink: accepted: above 0");
}

Model read_model(const fs::path& path) {
  std::ifstream file(path);
  const json j = json::parse(file);
  Model m;
  m.id = path.stem();
  m.name = j.at("name");
  m.compute_major = j.at("compute_capability").at(0);
  m.compute_minor = j.at("compute_capability").at(1);
  m.multiprocessors = j.at("multiprocessors");
  m.clock_khz = j.at("clock_khz");
  m.memory_clock_khz = j.at("memory_clock_khz");
  m.memory_bus_bits = j.at("memory_bus_bits");
  m.l2_bytes = j.at("l2_bytes");
  m.memory_bytes = j.at("memory_bytes");
  m.context_bytes = j.at("context_bytes");
  m.host_bytes = j.at("host_bytes");
  m.host_handles = j.value("host_handles", false);
  m.rates = j.at("flops_per_s");
  m.bandwidths = j.at("bytes_per_s");
  if (!m.rates.count("elementwise") || !m.bandwidths.count("elementwise")) {
    throw std::runtime_error("rates need a row 'elementwise'");
  }
  read_link(j.at("link"), m);
  m.launch_gap = j.at("launch_gap_ns");
  m.event_gap = j.at("event_gap_ns");
  read_costs(j.at("host_ns"), m);
  return m;
}

// Mapping calls at the price that was asked for.
void scale_mapping(const DeviceOptions& options, Model& m) {
  if (options.vmm_per_call) {
    m.set_access += std::exchange(m.set_access_per_handle, 0);
    m.set_access_beside_copies = 0;
    m.unmap += std::exchange(m.unmap_per_handle, 0);
  }
  for (Nanoseconds* const price :
       {&m.create, &m.map, &m.set_access, &m.unmap, &m.destroy, &m.set_access_per_handle,
        &m.set_access_beside_copies, &m.unmap_per_handle})
    *price = static_cast<Nanoseconds>(static_cast<double>(*price) * options.vmm);
}

void apply(const DeviceOptions& options, Model& m) {
  if (options.memory) m.memory_bytes = *options.memory;
  if (options.host_handles) m.host_handles = *options.host_handles != HostHandles::off;
  if (options.links_alone) {
    m.both_ways = 1;
    m.host_memory = 0;
    m.devices_per_switch = 1;
  }
  scale_mapping(options, m);
}

}  // namespace

std::string folder_of(const char* variable, const char* name) {
  if (const char* folder = std::getenv(variable); folder != nullptr && *folder != '\0') return folder;
  static const int here = 0;
  Dl_info info{};
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return name;
  std::error_code ignored;
  const fs::path beside = fs::absolute(info.dli_fname, ignored).parent_path();
  for (const fs::path& folder : {beside / name, beside.parent_path() / "softgpu" / name}) {
    if (fs::is_directory(folder, ignored)) return folder;
  }
  return beside / name;
}

std::string models_folder() {
  return folder_of("SOFTGPU_MODELS", "models");
}

bool choose_device(const std::string& value, const std::string& folder, Choice& out, std::string& error) {
  const std::vector<std::string> parts = split(value, ':');
  const auto refuse = [&](const std::string& why) {
    error = fmt::format(
        "softgpu: SOFTGPU_DEVICE='{}': {}; accepted: MODEL[:OPTION]..., OPTION one of: {}; MODEL one of: {}",
        value, why, accepted_options, known_models(folder));
    return false;
  };
  const fs::path path = fs::path(folder) / (parts[0] + ".json");
  std::error_code ignored;
  if (parts[0].empty() || parts[0].find('/') != std::string::npos || !fs::exists(path, ignored)) {
    return refuse(fmt::format("no model '{}'", parts[0]));
  }
  try {
    out.model = read_model(path);
  } catch (const std::exception& problem) {
    return refuse(fmt::format("the model's file cannot be read ({})", problem.what()));
  }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!read_option(parts[i], out.options)) return refuse(fmt::format("cannot understand '{}'", parts[i]));
  }
  apply(out.options, out.model);
  return true;
}

}  // namespace softgpu
