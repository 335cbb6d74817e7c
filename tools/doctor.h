// `pooch doctor`: whether pooch can do its work on this machine, for this program. Each finding comes with
// its cure.
#pragma once

#include <string>
#include <vector>

namespace pooch::tools {

struct DoctorOptions {
  std::string device = "real";
  bool json = false;
  std::vector<std::string> command;  // what is to be run; may be empty
  std::string probe;                 // of the child that doctor starts: the file for its answers
  std::string host_handles;          // of a process that the library starts: a device by its PCI bus id
};

// 0 without problems, 1 with; 2 for an argument that cannot be understood.
int doctor_command(const DoctorOptions& options);

// Asks the driver for a handle of host memory and maps it for the device and the program. The last line on
// stderr says whether that works, fails or crashes.
[[noreturn]] void try_host_handles(const std::string& bus_id);

}  // namespace pooch::tools
