// A network as its author knows it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "network.h"

namespace train {

// "network"; "layers": name, kind, inputs and output (map ids), shape and bytes of the output; "maps": id,
// name, bytes, whether the backward pass reads it, and the map in whose memory it lies; "edges": names of two
// layers. Shapes are n, c, d for clips, h, w. Sizes are for `batch` images.
nlohmann::ordered_json describe(const std::string& name, const Network& network, int batch);

}  // namespace train
