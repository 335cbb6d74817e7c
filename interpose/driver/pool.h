// The device's current memory pool.
#pragma once

#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// Has the driver give back what is free in the current pool.
void trim_current_pool(const Scope& scope);

}  // namespace pooch::interpose
