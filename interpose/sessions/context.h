// The calling thread's context.
#pragma once

#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// nullptr without one. The driver is asked once in a call of the program's at most.
CUcontext current_context(const Scope& scope);
// It may be another one from now on.
void forget_context();

}  // namespace pooch::interpose
