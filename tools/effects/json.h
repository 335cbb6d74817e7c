// Effects as JSON, for whoever keeps them (docs/effects.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "tools/effects/kernel.h"

namespace pooch::effects {

nlohmann::ordered_json to_json(const KernelEffects& effects);

// "foreseen", "hidden", "unknown".
const char* name_of(Verdict verdict);
// "load+store".
std::string text_of(Effect effect);

}  // namespace pooch::effects
