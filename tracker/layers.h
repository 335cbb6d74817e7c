// The network as its author knows it, from one iteration's ops.
#pragma once

#include "core/profile.h"

namespace pooch::tracker {

// The layers, maps and edges of a phase whose ops, versions and roles are filled in.
LayerGraph build_layers(const PhaseProfile& phase);

}  // namespace pooch::tracker
