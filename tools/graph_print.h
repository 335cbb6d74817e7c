// The layer graph of one phase as text; each ends with a newline.
#pragma once

#include <string>

#include "core/profile.h"

namespace pooch::tools {

// One line per layer, in order of execution, and the totals.
std::string graph_table(const PhaseProfile& phase);
// Fields as the trainer's --describe has them, where they mean the same.
std::string graph_json(const PhaseProfile& phase);
// A digraph for Graphviz.
std::string graph_dot(const PhaseProfile& phase);

}  // namespace pooch::tools
