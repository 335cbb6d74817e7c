// Capture and graphs. A captured call does not happen, nor does a node that is made by hand
// (driver_node.cpp): what it touches is brought to the device and stays there, because a graph knows its
// memory by place. It stays as long as any graph names it, be it as it was made, a copy, or one that can run.
// A launch is then an op that may read and write all of that.
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "core/log.h"
#include "interpose/sessions/again.h"
#include "interpose/calls/call_builder.h"
#include "interpose/calls/capture.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/errors.h"
#include "interpose/calls/graph_memory.h"
#include "interpose/hooks/libraries.h"
#include "interpose/process/process.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuStreamIsCapturing);
POOCH_REAL(cuda, cuStreamGetCaptureInfo_v2);

using Memories = std::vector<std::shared_ptr<GraphMemory>>;

struct Graphs {
  std::mutex mutex;                // a leaf
  std::set<StreamHandle> streams;  // in which capture was begun and has not been ended
  std::map<cuuint64_t, std::shared_ptr<GraphMemory>> captures;  // by the driver's number
  std::map<const void*, Memories> memories;                     // by CUgraph or CUgraphExec
  std::map<const void*, const void*> roots;  // of graphs that are bodies of nodes, outermost
  std::map<CUgraphNode, CUgraph> nodes;      // those that may be changed, of which graph

  // What runs when this one's node does is named by the graph that the node is in.
  Memories& of(const void* graph) { return memories[root(graph)]; }
  const void* root(const void* graph) const {
    const auto found = roots.find(graph);
    return found == roots.end() ? graph : found->second;
  }
};
Graphs& graphs() {
  static auto* const one = new Graphs;  // never destroyed, like all that hooks use
  return *one;
}

// A question changes nothing, so one that fails is put once more.
template <class Ask>
CUresult ask_twice(Ask&& ask) {
  const CUresult first = ask();
  return first == CUDA_SUCCESS || first == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT ? first : ask();
}

bool is_capturing(const Scope& scope, StreamHandle stream) {
  auto* const ask = real_cuStreamIsCapturing.get(scope);
  if (ask == nullptr) return false;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUresult answer = ask_twice([&] { return ask(reinterpret_cast<CUstream>(stream), &status); });
  if (answer == CUDA_SUCCESS) return status != CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers so while another stream captures; it does not capture itself.
  if (answer == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return false;
  const std::lock_guard lock(graphs().mutex);
  return graphs().streams.contains(stream);
}

// The driver's number of the capture that the stream is part of; 0: of none that goes on. Nothing: the driver
// does not say.
std::optional<cuuint64_t> capture_number(const Scope& scope, StreamHandle stream) {
  auto* const ask = real_cuStreamGetCaptureInfo_v2.get_if_present(scope);
  if (ask == nullptr) return 0;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  const CUresult answer = ask_twice(
      [&] { return ask(reinterpret_cast<CUstream>(stream), &status, &number, nullptr, nullptr, nullptr); });
  if (answer == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT) return 0;
  if (answer != CUDA_SUCCESS) return std::nullopt;
  return status == CU_STREAM_CAPTURE_STATUS_ACTIVE ? number : 0;
}

// After a call that begins or ends capture in `stream`, whatever became of it.
void note_capture(const Scope& scope, StreamHandle stream) {
  const bool now = is_capturing(scope, stream);
  const std::lock_guard lock(graphs().mutex);
  if (now) {
    graphs().streams.insert(stream);
  } else {
    graphs().streams.erase(stream);
  }
  captures = graphs().streams.size();
}

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
  // Where the driver does not say, what the capture holds is never let go.
  const cuuint64_t number = capture_number(scope, stream).value_or(0);
  const CUresult status = real();
  std::shared_ptr<GraphMemory> memory;  // let go outside of the mutex, where the capture failed
  {
    const std::lock_guard lock(graphs().mutex);
    if (const auto found = graphs().captures.find(number); found != graphs().captures.end()) {
      memory = std::move(found->second);
      graphs().captures.erase(found);
    }
    if (status == CUDA_SUCCESS && graph != nullptr && *graph != nullptr) {
      Memories& named = graphs().of(*graph);
      if (memory != nullptr) named.push_back(memory);
    }
  }
  note_capture(scope, stream);
  return status;
}

Memories memories_of(const void* graph) {
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().memories.find(graph);
  return found == graphs().memories.end() ? Memories{} : found->second;
}

// `copy` holds, or can run, what `original` does; `instead` of what it did before.
void copied(const void* copy, const void* original, bool instead) {
  Memories gone;
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().memories.find(original);
  if (found == graphs().memories.end()) return;
  const Memories from = found->second;
  Memories& to = graphs().of(copy);
  if (instead) gone = std::exchange(to, {});
  to.insert(to.end(), from.begin(), from.end());
}

void destroyed(const void* graph) {
  Memories gone;  // let go outside of the mutex
  const std::lock_guard lock(graphs().mutex);
  std::erase_if(graphs().nodes, [graph](const auto& node) { return node.second == graph; });
  std::erase_if(graphs().roots, [graph](const auto& body) { return body.second == graph; });
  if (const auto found = graphs().memories.find(graph); found != graphs().memories.end()) {
    gone = std::move(found->second);
    graphs().memories.erase(found);
  }
}

bool known(const void* graph) {
  const std::lock_guard lock(graphs().mutex);
  return graphs().memories.contains(graph);
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
  if (!known(exec)) {
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

namespace pooch::interpose {

bool captured(const Scope& scope, StreamHandle stream) {
  return any_capture() && is_capturing(scope, stream);
}

void forget_capture(StreamHandle stream) {
  const std::lock_guard lock(graphs().mutex);
  graphs().streams.erase(stream);
  captures = graphs().streams.size();
}

Status hold_captured(const Scope& scope, runtime::Session& session, const char* function, StreamHandle stream,
                     std::span<const Access> accesses, bool unforeseen) {
  const auto number = capture_number(scope, stream);
  if (!number) {
    const Error unknown{ErrorCode::device, "the driver does not say which capture it is part of"};
    report_refused(function, unknown);
    return unknown;
  }
  if (*number == 0) return Done{};  // no graph will come of it
  std::shared_ptr<GraphMemory> memory;
  {
    const std::lock_guard lock(graphs().mutex);
    auto& all = graphs().captures[*number];
    if (all == nullptr) all = std::make_shared<GraphMemory>(session);
    memory = all;
  }
  const Status held = memory->hold(accesses, unforeseen);
  if (!held && held.error().code == ErrorCode::out_of_memory)
    report_refused(function, held.error());  // anything else is said already
  return held;
}

void keep_for_graph(const void* graph, std::shared_ptr<GraphMemory> memory) {
  const std::lock_guard lock(graphs().mutex);
  graphs().of(graph).push_back(std::move(memory));
}

void copied_into_graph(const void* graph, const void* child) {
  copied(graph, child, false);
}

void note_body(CUgraph body, CUgraph graph) {
  const std::lock_guard lock(graphs().mutex);
  graphs().roots.insert_or_assign(body, graphs().root(graph));
}

void note_node(CUgraphNode node, CUgraph graph) {
  const std::lock_guard lock(graphs().mutex);
  graphs().nodes.insert_or_assign(node, graph);
}

const void* graph_of(CUgraphNode node) {
  const std::lock_guard lock(graphs().mutex);
  const auto found = graphs().nodes.find(node);
  return found == graphs().nodes.end() ? any_graph : found->second;
}

}  // namespace pooch::interpose

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

POOCH_DRIVER_HOOK(
    cuGraphCreate, (CUgraph * phGraph, unsigned int flags), (phGraph, flags),
    const CUresult status = launch();
    if (status == CUDA_SUCCESS) {
      const std::lock_guard lock(graphs().mutex);
      (void)graphs().of(*phGraph);
    } return status;)

// A function that succeeds puts what `from` does into `to` as well.
#define POOCH_GRAPH_COPY(function, parameters, arguments, to, from, instead)           \
  POOCH_DRIVER_HOOK(function, parameters, arguments, const CUresult status = launch(); \
                    if (status == CUDA_SUCCESS) copied(to, from, instead); return status;)

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
POOCH_DRIVER_HOOK(cuGraphDestroy, (CUgraph hGraph), (hGraph), destroyed(hGraph); return launch();)
POOCH_DRIVER_HOOK(cuGraphExecDestroy, (CUgraphExec hGraphExec), (hGraphExec), destroyed(hGraphExec);
                  return launch();)
