// Which streams are being captured into a graph.
#pragma once

#include "core/ids.h"
#include "interpose/scope.h"

namespace pooch::interpose {

// Is any stream of this process?
bool any_capture();
// Is this one, by itself or by what it waits for? One comparison where none is.
bool captured(const Scope& scope, StreamHandle stream);

}  // namespace pooch::interpose
