// Which streams are being captured into a graph, and what graphs keep on the device.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "core/call.h"
#include "core/ids.h"
#include "core/result.h"
#include "interpose/calls/graph_memory.h"
#include "interpose/hooks/captures.h"
#include "interpose/hooks/scope.h"

namespace pooch::interpose {

// Whether this stream is being captured.
bool captured(const Scope& scope, StreamHandle stream);
// After a call that begins or ends capture in `stream`, whatever became of it.
void note_capture(const Scope& scope, StreamHandle stream);
// Ahead of the call that ends the capture which `stream` is part of. The driver's number of it; 0: of none
// that goes on, or the driver does not say; then what the capture holds is never let go.
std::uint64_t capture_ending(const Scope& scope, StreamHandle stream);
// The program frees memory in a stream that is being captured.
void note_captured_free(const Scope& scope, StreamHandle stream);
// Ahead of the call that ends that capture in `stream`: joins the other streams in which it freed. PyTorch's
// stream-ordered allocator leaves its own such streams unjoined, and the capture would fail.
void join_captured_frees(const Scope& scope, std::uint64_t number, StreamHandle stream);
// What that capture has touched, once; nullptr: nothing.
std::shared_ptr<GraphMemory> take_captured(std::uint64_t number);
// The program destroys the stream.
void forget_capture(StreamHandle stream);

// A call in a stream that is being captured: what it touches stays on the device as long as a graph names it.
// `unforeseen`: it may touch more than that, and so may a launch of the graph. Errors, with a line:
// out_of_memory (there is no room for it); others (the call must not be made).
Status hold_captured(const Scope& scope, runtime::Session& session, const char* function, StreamHandle stream,
                     std::span<const Access> accesses, bool unforeseen);

}  // namespace pooch::interpose
