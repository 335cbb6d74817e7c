// `pooch doctor`: can pooch do its work on this machine, for this program? Each finding comes with its cure.
#pragma once

#include <string>
#include <vector>

namespace pooch::tools {

struct DoctorOptions {
  std::string device = "real";
  bool json = false;
  std::vector<std::string> command;  // what is to be run; may be empty
  std::string probe;                 // of the child that doctor starts: the file for its answers
};

// 0 without problems, 1 with; 2 for an argument that cannot be understood.
int doctor_command(const DoctorOptions& options);

}  // namespace pooch::tools
