// `pooch graph PROFILE --sites`: where in the program the ops of each layer are called.
#pragma once

#include <string>
#include <vector>

#include "core/profile.h"

namespace pooch::tools {

struct SitesText {
  std::string text;                   // per layer its ops with the program's innermost frames
  std::vector<std::string> problems;  // what could not be looked up, one line each
};

// `phase` is one of the profile's.
SitesText graph_sites(const Profile& profile, const PhaseProfile& phase);

}  // namespace pooch::tools
