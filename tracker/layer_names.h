// Names for layers, derived from the layers alone: the same in every run.
#pragma once

#include "core/profile.h"

namespace pooch::tracker {

// Sets the names of all layers and maps. "conv3_2 3×3/1 256→256" is the second convolution at the third size
// of feature maps; other kinds are numbered alike; maps are named after the layer that makes them. `phase`
// has the ops.
void name_layers(const PhaseProfile& phase, LayerGraph& graph);

}  // namespace pooch::tracker
