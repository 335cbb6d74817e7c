// Capture and graphs. Of a graph's making by hand there is only the empty one: nodes come from captures.
#include "softgpu/driver/api/api.h"
#include "softgpu/driver/order/capture.h"

using namespace softgpu;

namespace {

CUresult begin_capture(const char* name, bool per_thread, CUstream which, CUstreamCaptureMode mode) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  return m.captures.begin(stream, mode);
}

CUresult end_capture(const char* name, bool per_thread, CUstream which, CUgraph* out) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = nullptr;
  Graph graph;
  const CUresult status = m.captures.end(stream, &graph.nodes);
  if (status == CUDA_SUCCESS) *out = m.graphs.add<CUgraph>(std::move(graph));
  return status;
}

CUresult capture_info(const char* name, bool per_thread, CUstream which, CUstreamCaptureStatus* status,
                      cuuint64_t* id, CUgraph* graph, std::size_t* dependencies) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (stream->legacy) {
    for (const StreamPtr& other : m.scheduler.streams_of(call.context))
      if (other->blocking && other->capture) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  const CapturePtr& capture = stream->capture;
  *status = capture == nullptr ? CU_STREAM_CAPTURE_STATUS_NONE
            : capture->valid   ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                               : CU_STREAM_CAPTURE_STATUS_INVALIDATED;
  if (capture != nullptr && id != nullptr) *id = capture->id;
  if (graph != nullptr) *graph = nullptr;  // not before the capture's end
  if (dependencies != nullptr) *dependencies = 0;
  return CUDA_SUCCESS;
}

CUresult is_capturing(const char* name, bool per_thread, CUstream which, CUstreamCaptureStatus* status) {
  return capture_info(name, per_thread, which, status, nullptr, nullptr, nullptr);
}

CUresult instantiate(const char* name, CUgraphExec* out, CUgraph which) {
  SOFTGPU_CALL(name, needs_context, &Model::launch);
  const Graph* const graph = m.graphs.find(which);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = m.graphs.add<CUgraphExec>(Graph(*graph));
  return CUDA_SUCCESS;
}

// What a profiler is told: the launch is the call that a graph's kernels belong to.
void note(const Call& call, Work& work) {
  WorkActivity activity = call.activity(activity_kernels);
  activity.name = work.by.name;
  activity.graph = 1;
  std::fill_n(activity.grid, 3, 1U);
  std::fill_n(activity.block, 3, 1U);
  activity_feed().follow(work, activity);
}

CUresult launch_graph(const char* name, bool per_thread, CUstream which, CUgraphExec exec) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::launch);
  const Graph* const graph = m.graphs.find(exec);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (Work work : graph->nodes) {
    const bool kernel = work.engine == Engine::compute && work.copies.empty();
    work.by.call = call.number;
    if (!stream->capture && kernel) ++m.statistics.kernels;
    if (!stream->capture && kernel && activity_feed().wants(activity_kernels)) note(call, work);
    const CUresult status = m.scheduler.submit(call.lock, stream, std::move(work));
    if (status != CUDA_SUCCESS) return status;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_BOTH(cuStreamBeginCapture_v2, cuStreamBeginCapture_v2_ptsz, begin_capture,
             (CUstream s, CUstreamCaptureMode mode), s, mode)
SOFTGPU_BOTH(cuStreamEndCapture, cuStreamEndCapture_ptsz, end_capture, (CUstream s, CUgraph* out), s, out)
SOFTGPU_BOTH(cuStreamIsCapturing, cuStreamIsCapturing_ptsz, is_capturing,
             (CUstream s, CUstreamCaptureStatus* status), s, status)
SOFTGPU_BOTH(cuStreamGetCaptureInfo_v3, cuStreamGetCaptureInfo_v3_ptsz, capture_info,
             (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode**,
              const CUgraphEdgeData**, size_t* count),
             s, status, id, graph, count)
SOFTGPU_BOTH(cuStreamGetCaptureInfo_v2, cuStreamGetCaptureInfo_v2_ptsz, capture_info,
             (CUstream s, CUstreamCaptureStatus* status, cuuint64_t* id, CUgraph* graph, const CUgraphNode**,
              size_t* count),
             s, status, id, graph, count)
SOFTGPU_BOTH(cuGraphLaunch, cuGraphLaunch_ptsz, launch_graph, (CUgraphExec exec, CUstream s), s, exec)

SOFTGPU_EXPORT(cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (mode == nullptr || *mode > CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_ERROR_INVALID_VALUE;
  std::swap(*mode, capture_mode_of_thread());
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuGraphCreate)(CUgraph* out, unsigned flags) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = m.graphs.add<CUgraph>({});
  return CUDA_SUCCESS;
}
SOFTGPU_EXPORT(cuGraphClone)(CUgraph* out, CUgraph original) {
  SOFTGPU_CALL(__func__, needs_driver);
  const Graph* const graph = m.graphs.find(original);
  if (out == nullptr || graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = m.graphs.add<CUgraph>(Graph(*graph));
  return CUDA_SUCCESS;
}
SOFTGPU_EXPORT(cuGraphDestroy)(CUgraph graph) {
  SOFTGPU_CALL(__func__, needs_driver);
  return m.graphs.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// How many; who asks for the nodes themselves gets none.
SOFTGPU_EXPORT(cuGraphGetNodes)(CUgraph which, CUgraphNode* nodes, size_t* count) {
  SOFTGPU_CALL(__func__, needs_driver);
  const Graph* const graph = m.graphs.find(which);
  if (graph == nullptr || count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (nodes != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  *count = graph->nodes.size();
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuGraphInstantiateWithFlags)(CUgraphExec* out, CUgraph graph, unsigned long long) {
  return instantiate(__func__, out, graph);
}
SOFTGPU_EXPORT(cuGraphInstantiate)(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(__func__, out, graph);
}
SOFTGPU_EXPORT(cuGraphInstantiate_v2)(CUgraphExec* out, CUgraph graph, CUgraphNode*, char*, size_t) {
  return instantiate(__func__, out, graph);
}
SOFTGPU_EXPORT(cuGraphUpload)(CUgraphExec exec, CUstream which) {
  SOFTGPU_STREAM_CALL(__func__, false, nullptr);
  return m.graphs.find(exec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
SOFTGPU_EXPORT(cuGraphUpload_ptsz)(CUgraphExec exec, CUstream which) {
  SOFTGPU_STREAM_CALL(__func__, true, nullptr);
  return m.graphs.find(exec) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
// A graph of other work is refused, as the vendor's driver refuses one of another topology.
SOFTGPU_EXPORT(cuGraphExecUpdate_v2)(CUgraphExec exec, CUgraph which, CUgraphExecUpdateResultInfo* result) {
  SOFTGPU_CALL(__func__, needs_driver);
  Graph* const old = m.graphs.find(exec);
  const Graph* const graph = m.graphs.find(which);
  if (old == nullptr || graph == nullptr || result == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *result = {};
  const bool same = std::equal(old->nodes.begin(), old->nodes.end(), graph->nodes.begin(), graph->nodes.end(),
                               [](const Work& a, const Work& b) { return a.by.name == b.by.name; });
  if (!same) {
    result->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  }
  *old = *graph;
  return CUDA_SUCCESS;
}
SOFTGPU_EXPORT(cuGraphExecDestroy)(CUgraphExec exec) {
  SOFTGPU_CALL(__func__, needs_driver);
  return m.graphs.remove(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
