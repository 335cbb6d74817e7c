#include "softgpu/device_options.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace softgpu {
namespace {

constexpr std::pair<std::string_view, HostHandles> host_handles_names[] = {
    {"on", HostHandles::on},
    {"off", HostHandles::off},
    {"refused", HostHandles::refused},
    {"crash", HostHandles::crash},
    {"misreported", HostHandles::misreported}};
constexpr double most_times = 1000, most_percent = 50;

template <class Number>
bool read_number(std::string_view text, Number& out) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  return error == std::errc() && at == end && !text.empty() && text[0] != '-';
}

// `16GiB`, `80MiB`, `512KiB`, `4096`.
bool read_bytes(std::string_view text, std::uint64_t& out) {
  constexpr std::pair<std::string_view, unsigned> units[] = {{"", 0},     {"B", 0},    {"KiB", 10},
                                                             {"MiB", 20}, {"GiB", 30}, {"TiB", 40}};
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::uint64_t number = 0;
  if (!read_number(text.substr(0, digits), number)) return false;
  for (const auto& [unit, shift] : units) {
    if (text.substr(digits) != unit || number > (UINT64_MAX >> shift)) continue;
    out = number << shift;
    return out > 0;
  }
  return false;
}

bool read_vmm(std::string_view text, DeviceOptions& options) {
  options.vmm_per_call = text == "percall";
  if (options.vmm_per_call) {
    options.vmm = 1;
    return true;
  }
  return read_number(text, options.vmm) && options.vmm <= most_times;
}

bool read_noise(std::string_view text, DeviceOptions& options) {
  const std::size_t comma = text.find(',');
  if (comma != std::string_view::npos && !read_number(text.substr(comma + 1), options.noise_seed))
    return false;
  return read_number(text.substr(0, comma), options.noise_percent) && options.noise_percent <= most_percent;
}

bool read_host_handles(std::string_view text, DeviceOptions& options) {
  for (const auto& [name, value] : host_handles_names) {
    if (text != name) continue;
    options.host_handles = value;
    return true;
  }
  return false;
}

// One of two words, of which the second sets the flag.
bool read_choice(std::string_view text, std::string_view clear, std::string_view set, bool& out) {
  out = text == set;
  return text == clear || text == set;
}

}  // namespace

const std::string_view accepted_options =
    "compute, timing, memory=BYTES (16GiB, 80MiB), devices=1..8, "
    "host_handles=on|off|refused|crash|misreported, "
    "vmm=TIMES|percall, vmm_sync=on|off, links=shared|alone, addresses=low|high, overheads=on|off, "
    "kernel_queries=own|both, "
    "noise=PERCENT[,SEED]";

bool read_option(std::string_view option, DeviceOptions& options) {
  const std::size_t equals = option.find('=');
  if (equals == std::string_view::npos) return read_choice(option, "compute", "timing", options.timing);
  const std::string_view key = option.substr(0, equals), value = option.substr(equals + 1);
  if (key == "memory") return read_bytes(value, options.memory.emplace());
  if (key == "devices")
    return read_number(value, options.devices) && options.devices >= 1 && options.devices <= 8;
  if (key == "host_handles") return read_host_handles(value, options);
  if (key == "vmm") return read_vmm(value, options);
  if (key == "vmm_sync") return read_choice(value, "off", "on", options.vmm_sync);
  if (key == "links") return read_choice(value, "shared", "alone", options.links_alone);
  if (key == "addresses") return read_choice(value, "low", "high", options.high_addresses);
  if (key == "overheads") return read_choice(value, "on", "off", options.no_overheads);
  if (key == "kernel_queries") return read_choice(value, "own", "both", options.queries_of_both);
  if (key == "noise") return read_noise(value, options);
  return false;
}

std::string to_string(const DeviceOptions& options) {
  const auto decimal = [](double number) {
    char text[32];
    return std::string(text, std::to_chars(text, text + sizeof text, number).ptr);
  };
  std::string text = options.timing ? ":timing" : ":compute";
  if (options.memory) text += ":memory=" + std::to_string(*options.memory);
  if (options.devices != 1) text += ":devices=" + std::to_string(options.devices);
  for (const auto& [name, value] : host_handles_names)
    if (options.host_handles == value) text += ":host_handles=" + std::string(name);
  if (options.vmm_per_call) text += ":vmm=percall";
  if (options.vmm != 1) text += ":vmm=" + decimal(options.vmm);
  if (options.vmm_sync) text += ":vmm_sync=on";
  if (options.links_alone) text += ":links=alone";
  if (options.high_addresses) text += ":addresses=high";
  if (options.no_overheads) text += ":overheads=off";
  if (options.queries_of_both) text += ":kernel_queries=both";
  if (options.noise_percent != 0)
    text += ":noise=" + decimal(options.noise_percent) + "," + std::to_string(options.noise_seed);
  return text;
}

}  // namespace softgpu
