// A network as its author knows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "network.h"

namespace train {

// "network";
// "layers": name, kind, inputs and output (map ids), shape and bytes of the output, what it saves for the
// backward pass besides maps; of convolutions and poolings the "window" per spatial dimension, of
// convolutions the "groups"; "loss": the map whose softmax is taken, and whose probabilities the backward
// pass begins with; "maps": id, name, shape, bytes, whether the backward pass reads it, the map in whose
// memory it lies, and its first channel there; "edges": names of two layers. Shapes are n, c, d for clips, h,
// w. Sizes are for `batch` images.
nlohmann::ordered_json describe(const std::string& name, const Network& network, int batch);

}  // namespace train
