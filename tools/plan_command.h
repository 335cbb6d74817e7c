// `pooch plan`: a plan from a profile, written for whoever carries it out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/profile.h"

namespace pooch::tools {

// As written on the command line.
struct PlanOptions {
  std::string profile;  // file
  std::string policy = "hybrid";
  std::string memory;  // device bytes, or a share of the profile's device
  std::optional<double> link_out, link_in;
  std::string phase;  // id; empty: the first, which took the most device time
  std::uint64_t seed = 0;
  unsigned effort = 1;
  bool unplaced = false;  // no layout is looked for
  bool allow_numerics = false;
  // Of its layout, where the profile knows places.
  std::string room;                 // device bytes of all that lies there; empty: `memory`
  std::vector<std::string> beside;  // files: plans of other phases, which share it
  std::string follow;               // file: the plan that is laid out; empty: one is made
  std::string output;
};

// 0, or 2 after one line on stderr; then nothing was written.
int plan_command(const PlanOptions& options);

// Of all planned policies, with commas between them.
std::string policy_names();
// "'NAME': accepted are …", where no policy has that name; or that it changes the numbers, where that is not
// allowed; otherwise nothing.
std::optional<std::string> refused_policy(const std::string& name, bool allow_numerics,
                                          const char* also_accepted = "");
bool changes_numerics(const std::string& policy);
// Says on stderr, in a line, that the policy finds no algorithms to choose from in this phase; else nothing.
void say_own_algorithms(const char* command, const std::string& policy, const Profile& profile,
                        const std::string& phase);

}  // namespace pooch::tools
