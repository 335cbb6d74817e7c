// `pooch plan`: a plan from a profile, written for whoever carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace pooch::tools {

// As written on the command line.
struct PlanOptions {
  std::string profile;  // file
  std::string policy = "hybrid";
  std::string memory;  // device bytes, or a share of the profile's device
  std::optional<double> link_out, link_in;
  std::string phase;  // id; empty: the first, which took the most device time
  std::uint64_t seed = 0;
  std::string backing = "alias";
  std::string output;
};

// 0, or 2 after one line on stderr; then nothing was written.
int plan_command(const PlanOptions& options);

// Of all planned policies, with commas between them.
std::string policy_names();
// "'NAME': accepted are …", where no policy has that name; otherwise nothing.
std::optional<std::string> unknown_policy(const std::string& name);

}  // namespace pooch::tools
