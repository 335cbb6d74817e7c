// Capture and graphs. A captured call does not happen, nor does a node that is made by hand
// (node.cpp): what it touches is brought to the device and stays there, because a graph knows its
// memory by place. It stays as long as any graph names it, be it as it was made, a copy, or one that can run.
// A launch is then an op that may read and write all of that.
#include <atomic>

#include "core/log.h"
#include "interpose/calls/call_builder.h"
#include "interpose/calls/capture.h"
#include "interpose/calls/graph_memory.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/hooks/stream.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

template <class RealCall>
CUresult begin_capture(const Scope& scope, StreamHandle stream, RealCall&& real) {
  // Ahead of the call: in a captured stream there is nothing to be asked.
  if (runtime::Session* const session = session_for_driver_call(scope)) session->capture_begins();
  const CUresult status = real();
  note_capture(scope, stream);
  return status;
}

template <class RealCall>
CUresult end_capture(const Scope& scope, StreamHandle stream, CUgraph* graph, RealCall&& real) {
  const std::uint64_t number = capture_ending(scope, stream);
  join_captured_frees(scope, number, stream);
  const CUresult status = real();
  const auto memory = take_captured(number);  // let go here where the capture failed
  if (status == CUDA_SUCCESS && graph != nullptr && *graph != nullptr) keep_for_graph(*graph, memory);
  note_capture(scope, stream);
  return status;
}

void warn_of_graph() {
  static std::atomic<bool> reported{false};
  if (reported.exchange(true)) return;
  log::warn(
      "a CUDA graph passes through of whose making nothing was seen: operands of its nodes that are away "
      "when "
      "it runs make it fail");
}

template <class RealCall>
CUresult launch_graph(const Scope& scope, CUgraphExec exec, StreamHandle stream, RealCall&& real) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real();
  CallBuilder call(scope, *session, "cuGraphLaunch", OpKind::bare_launch, stream);
  if (!is_known_graph(exec)) {
    warn_of_graph();
    call.unforeseen();
  }
  for (const void* const named : {static_cast<const void*>(exec), any_graph})
    for (const auto& memory : memories_of(named)) {
      if (memory->unforeseen()) call.unforeseen();
      for (const runtime::Kept& one : memory->held())
        call.add(one.memory.base, Extent(one.memory.bytes), Effect::read_write);
    }
  return call.submit(CUDA_ERROR_OUT_OF_MEMORY, real);
}

}  // namespace

// Both meanings of stream 0: `stream` is what it is.
#define POOCH_GRAPH_BOTH(function, parameters, arguments, ...)                                \
  POOCH_DRIVER_HOOK(function, parameters, arguments,                                          \
                    const StreamHandle stream = stream_of(hStream, StreamHandle::legacy);     \
                    __VA_ARGS__)                                                              \
  POOCH_DRIVER_HOOK(function##_ptsz, parameters, arguments,                                   \
                    const StreamHandle stream = stream_of(hStream, StreamHandle::per_thread); \
                    __VA_ARGS__)

// CUDA 10.0's form: always of the strictest mode
POOCH_GRAPH_BOTH(cuStreamBeginCapture, (CUstream hStream), (hStream),
                 return begin_capture(scope, stream, launch);)
POOCH_GRAPH_BOTH(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode),
                 return begin_capture(scope, stream, launch);)
POOCH_GRAPH_BOTH(cuStreamBeginCaptureToGraph,
                 (CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                  const CUgraphEdgeData* dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
                 (hStream, hGraph, dependencies, dependencyData, numDependencies, mode),
                 return begin_capture(scope, stream, launch);)
POOCH_GRAPH_BOTH(cuStreamEndCapture, (CUstream hStream, CUgraph* phGraph), (hStream, phGraph),
                 return end_capture(scope, stream, phGraph, launch);)
POOCH_GRAPH_BOTH(cuGraphLaunch, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream),
                 return launch_graph(scope, hGraphExec, stream, launch);)

POOCH_DRIVER_HOOK(cuGraphCreate, (CUgraph * phGraph, unsigned int flags), (phGraph, flags),
                  const CUresult status = launch();
                  if (status == CUDA_SUCCESS) keep_for_graph(*phGraph, nullptr); return status;)

// A function that succeeds puts what `from` does into `to` as well.
#define POOCH_GRAPH_COPY(function, parameters, arguments, to, from, instead)           \
  POOCH_DRIVER_HOOK(function, parameters, arguments, const CUresult status = launch(); \
                    if (status == CUDA_SUCCESS) copied_graph(to, from, instead); return status;)

POOCH_GRAPH_COPY(cuGraphClone, (CUgraph * phGraphClone, CUgraph originalGraph), (phGraphClone, originalGraph),
                 *phGraphClone, originalGraph, false)
POOCH_GRAPH_COPY(cuGraphInstantiate,
                 (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                  size_t bufferSize),
                 (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), *phGraphExec, hGraph, false)
POOCH_GRAPH_COPY(cuGraphInstantiate_v2,
                 (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode, char* logBuffer,
                  size_t bufferSize),
                 (phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize), *phGraphExec, hGraph, false)
POOCH_GRAPH_COPY(cuGraphInstantiateWithFlags,
                 (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags),
                 (phGraphExec, hGraph, flags), *phGraphExec, hGraph, false)
POOCH_GRAPH_COPY(cuGraphInstantiateWithParams,
                 (CUgraphExec * phGraphExec, CUgraph hGraph,
                  CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams),
                 (phGraphExec, hGraph, instantiateParams), *phGraphExec, hGraph, false)
POOCH_GRAPH_COPY(cuGraphInstantiateWithParams_ptsz,
                 (CUgraphExec * phGraphExec, CUgraph hGraph,
                  CUDA_GRAPH_INSTANTIATE_PARAMS* instantiateParams),
                 (phGraphExec, hGraph, instantiateParams), *phGraphExec, hGraph, false)
POOCH_GRAPH_COPY(cuGraphExecUpdate,
                 (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                  CUgraphExecUpdateResult* updateResult_out),
                 (hGraphExec, hGraph, hErrorNode_out, updateResult_out), hGraphExec, hGraph, true)
POOCH_GRAPH_COPY(cuGraphExecUpdate_v2,
                 (CUgraphExec hGraphExec, CUgraph hGraph, CUgraphExecUpdateResultInfo* resultInfo),
                 (hGraphExec, hGraph, resultInfo), hGraphExec, hGraph, true)
POOCH_GRAPH_COPY(cuGraphAddChildGraphNode,
                 (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode* dependencies,
                  size_t numDependencies, CUgraph childGraph),
                 (phGraphNode, hGraph, dependencies, numDependencies, childGraph), hGraph, childGraph, false)
POOCH_GRAPH_COPY(cuGraphExecChildGraphNodeSetParams,
                 (CUgraphExec hGraphExec, CUgraphNode hNode, CUgraph childGraph),
                 (hGraphExec, hNode, childGraph), hGraphExec, childGraph, false)

// Ahead of the call: afterwards the handle may mean another graph. The session itself waits for work that
// runs.
POOCH_DRIVER_HOOK(cuGraphDestroy, (CUgraph hGraph), (hGraph), forget_graph(hGraph); return launch();)
POOCH_DRIVER_HOOK(cuGraphExecDestroy, (CUgraphExec hGraphExec), (hGraphExec), forget_graph(hGraphExec);
                  return launch();)
