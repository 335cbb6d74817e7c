// `pooch graph`: the network that a profile or a recording holds, for people, as JSON or for Graphviz.
#pragma once

#include <string>

namespace pooch::tools {

struct GraphOptions {
  std::string profile;  // file; or a recording
  std::string phase;    // id; empty: the first, which took the most device time
  bool dot = false;
  bool json = false;
  bool sites = false;
};

// 0, or 2 after one line on stderr; then nothing was printed.
int graph_command(const GraphOptions& options);

}  // namespace pooch::tools
