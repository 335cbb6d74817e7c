// What a device is: read from models/NAME.json. All costs of virtual time come from here (cost.h turns them
// into durations), so that a calibration is an edit of a JSON file.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "softgpu/device_options.h"
#include "softgpu/driver/terms/clock.h"

namespace softgpu {

struct Model {
  std::string id;    // the file's name without ".json"
  std::string name;  // as cuDeviceGetName reports it
  int compute_major = 7, compute_minor = 0;
  int multiprocessors = 80;
  int clock_khz = 0, memory_clock_khz = 0, memory_bus_bits = 0;
  std::uint64_t l2_bytes = 0;
  std::uint64_t memory_bytes = 0;   // usable by allocations
  std::uint64_t context_bytes = 0;  // taken by the context, beside them
  std::uint64_t host_bytes = 0;     // most that can be page-locked
  bool host_handles = false;        // it says that cuMemCreate serves HOST_NUMA, for device addresses too

  std::map<std::string, double> rates;       // FLOP/s per op kind
  std::map<std::string, double> bandwidths;  // bytes/s per op kind
  double to_device = 0, to_host = 0;         // bytes/s of the link, either way alone
  double both_ways = 1;                      // the share of these at which both run at once
  double host_memory = 0;      // bytes/s to and from all devices of a node; 0: more than they can move
  int devices_per_switch = 1;  // 1: each has the way to the host to itself
  double switch_uplink = 0;    // bytes/s, either way alone
  double host_copy = 0;        // bytes/s of a host-to-host copy
  Nanoseconds copy_latency = 0;
  Nanoseconds launch_gap = 0;  // between two kernels on the device
  Nanoseconds event_gap = 0;   // what a recorded event takes of its stream's time

  // Host costs, per call.
  Nanoseconds api = 0, launch = 0, copy_submit = 0, event = 0, query = 0, synchronize = 0;
  Nanoseconds allocate = 0, free = 0, pool = 0;
  Nanoseconds create = 0, map = 0, set_access = 0, unmap = 0, destroy = 0, reserve = 0;
  Nanoseconds set_access_per_handle = 0, unmap_per_handle = 0;  // beside these
  Nanoseconds set_access_beside_copies = 0;  // in place of it for a handle, while a copy to the host goes on
  Nanoseconds context = 0, module = 0, host_function = 0, pin_call = 0;
  double pin_per_byte = 0;          // nanoseconds
  Nanoseconds profiled_call = 500;  // what a profiler that notes calls adds to each
};

constexpr int most_devices = 8;
constexpr int threads_per_multiprocessor = 2048;

// What SOFTGPU_DEVICE asks for.
struct Choice {
  Model model;  // as the options change it
  DeviceOptions options;
};

// Reads `MODEL[:OPTION]…` and the model's file in `folder`. On failure returns false and sets `error` to one
// line that names the value and what is accepted.
bool choose_device(const std::string& value, const std::string& folder, Choice& out, std::string& error);

// A folder of files that this library needs: the variable's value, else `name` beside this library.
std::string folder_of(const char* variable, const char* name);
// The folder of model files: SOFTGPU_MODELS, else `models/` beside this library.
std::string models_folder();

}  // namespace softgpu
