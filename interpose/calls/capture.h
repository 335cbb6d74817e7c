// Which streams are being captured into a graph, and what graphs keep on the device.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/call.h"
#include "core/ids.h"
#include "core/result.h"
#include "interpose/hooks/scope.h"

namespace pooch::runtime {
class Session;
}

namespace pooch::interpose {

// How many streams are being captured.
inline constinit std::atomic<std::size_t> captures{0};
inline bool any_capture() {
  return captures.load(std::memory_order_relaxed) != 0;
}
// Whether this is one.
bool captured(const Scope& scope, StreamHandle stream);
// The program destroys the stream.
void forget_capture(StreamHandle stream);

// A call in a stream that is being captured: what it touches stays on the device as long as a graph names it.
// `unforeseen`: it may touch more than that, and so may a launch of the graph. Errors, with a line:
// out_of_memory (there is no room for it); others (the call must not be made).
Status hold_captured(const Scope& scope, runtime::Session& session, const char* function, StreamHandle stream,
                     std::span<const Access> accesses, bool unforeseen);

}  // namespace pooch::interpose
