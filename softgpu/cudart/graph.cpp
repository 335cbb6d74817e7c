// Capture and graphs: the driver's, under the runtime's names.
#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode, Streams streams) {
  return in_context(&DriverTable::StreamBeginCapture, streams, stream,
                    static_cast<CUstreamCaptureMode>(mode));
}

}  // namespace

SOFTGPU_CUDART cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return begin_capture(stream, mode, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaStreamBeginCapture_ptsz(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return begin_capture(stream, mode, Streams::per_thread);
}
SOFTGPU_CUDART cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return in_context(&DriverTable::StreamEndCapture, Streams::legacy, stream, graph);
}
SOFTGPU_CUDART cudaError_t cudaStreamEndCapture_ptsz(cudaStream_t stream, cudaGraph_t* graph) {
  return in_context(&DriverTable::StreamEndCapture, Streams::per_thread, stream, graph);
}

SOFTGPU_CUDART cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  return in_context(&DriverTable::GraphCreate, Streams::legacy, graph, flags);
}
SOFTGPU_CUDART cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return in_context(&DriverTable::GraphClone, Streams::legacy, clone, original);
}
SOFTGPU_CUDART cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return in_context(&DriverTable::GraphDestroy, Streams::legacy, graph);
}
SOFTGPU_CUDART cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return in_context(&DriverTable::GraphGetNodes, Streams::legacy, graph, nodes, count);
}

SOFTGPU_CUDART cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                unsigned long long flags) {
  return in_context(&DriverTable::GraphInstantiateWithFlags, Streams::legacy, exec, graph, flags);
}
SOFTGPU_CUDART cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                         unsigned long long flags) {
  return cudaGraphInstantiate(exec, graph, flags);
}
SOFTGPU_CUDART cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                               cudaGraphExecUpdateResultInfo* result) {
  static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
  return in_context(&DriverTable::GraphExecUpdate, Streams::legacy, exec, graph,
                    reinterpret_cast<CUgraphExecUpdateResultInfo*>(result));
}
SOFTGPU_CUDART cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return in_context(&DriverTable::GraphExecDestroy, Streams::legacy, exec);
}
SOFTGPU_CUDART cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context(&DriverTable::GraphUpload, Streams::legacy, exec, stream);
}
SOFTGPU_CUDART cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context(&DriverTable::GraphLaunch, Streams::legacy, exec, stream);
}
SOFTGPU_CUDART cudaError_t cudaGraphLaunch_ptsz(cudaGraphExec_t exec, cudaStream_t stream) {
  return in_context(&DriverTable::GraphLaunch, Streams::per_thread, exec, stream);
}
