// The life of pooch in one process: configured at the first cuInit, a report at exit, and inert in a forked
// child.
#pragma once

#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// Called by the cuInit hook around the real call. A value that cannot be understood ends the process, exit
// code 2.
void before_driver_init(const Scope& scope);
void after_driver_init(const Scope& scope);

}  // namespace pooch::interpose
