// Streams, events, host functions.
#include <memory>
#include <new>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

struct Callback {
  cudaStreamCallback_t function;
  void* data;
};

// The driver's callback type differs from the runtime's in the status it passes.
void CUDA_CB run_callback(CUstream stream, CUresult result, void* data) {
  std::unique_ptr<Callback> callback(static_cast<Callback*>(data));
  callback->function(stream, to_error(result), callback->data);
}

cudaError_t add_callback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags,
                         Streams streams) {
  if (!function || flags != 0) return record(cudaErrorInvalidValue);
  auto* callback = new (std::nothrow) Callback{function, data};
  if (!callback) return record(cudaErrorMemoryAllocation);
  cudaError_t error = in_context(&DriverTable::StreamAddCallback, streams, stream, &run_callback,
                                 static_cast<void*>(callback), 0U);
  if (error != cudaSuccess) delete callback;
  return error;
}

cudaError_t is_capturing(cudaStream_t stream, cudaStreamCaptureStatus* status, Streams streams) {
  if (!status) return record(cudaErrorInvalidValue);
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  cudaError_t error = in_context(&DriverTable::StreamIsCapturing, streams, stream, &state);
  *status = static_cast<cudaStreamCaptureStatus>(state);
  return error;
}

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id,
                         cudaGraph_t* graph, const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                         std::size_t* count, Streams streams) {
  static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
  if (!status) return record(cudaErrorInvalidValue);
  CUstreamCaptureStatus state = CU_STREAM_CAPTURE_STATUS_NONE;
  cuuint64_t number = 0;
  const cudaError_t error = in_context(&DriverTable::StreamGetCaptureInfo, streams, stream, &state, &number,
                                       graph, nodes, reinterpret_cast<const CUgraphEdgeData**>(edges), count);
  *status = static_cast<cudaStreamCaptureStatus>(state);
  if (id) *id = number;
  return error;
}

}  // namespace

SOFTGPU_CUDART cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return in_context(&DriverTable::StreamCreate, Streams::legacy, stream, flags);
}
SOFTGPU_CUDART cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}
SOFTGPU_CUDART cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  return in_context(&DriverTable::StreamCreateWithPriority, Streams::legacy, stream, flags, priority);
}
SOFTGPU_CUDART cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return in_context(&DriverTable::StreamDestroy, Streams::legacy, stream);
}

SOFTGPU_CUDART cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return in_context(&DriverTable::StreamQuery, Streams::legacy, stream);
}
SOFTGPU_CUDART cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream) {
  return in_context(&DriverTable::StreamQuery, Streams::per_thread, stream);
}

SOFTGPU_CUDART cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return in_context(&DriverTable::StreamSynchronize, Streams::legacy, stream);
}
SOFTGPU_CUDART cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream) {
  return in_context(&DriverTable::StreamSynchronize, Streams::per_thread, stream);
}

SOFTGPU_CUDART cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return in_context(&DriverTable::StreamWaitEvent, Streams::legacy, stream, event, flags);
}
SOFTGPU_CUDART cudaError_t cudaStreamWaitEvent_ptsz(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return in_context(&DriverTable::StreamWaitEvent, Streams::per_thread, stream, event, flags);
}

SOFTGPU_CUDART cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned* flags) {
  return in_context(&DriverTable::StreamGetFlags, Streams::legacy, stream, flags);
}
SOFTGPU_CUDART cudaError_t cudaStreamGetFlags_ptsz(cudaStream_t stream, unsigned* flags) {
  return in_context(&DriverTable::StreamGetFlags, Streams::per_thread, stream, flags);
}

SOFTGPU_CUDART cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return in_context(&DriverTable::StreamGetPriority, Streams::legacy, stream, priority);
}
SOFTGPU_CUDART cudaError_t cudaStreamGetPriority_ptsz(cudaStream_t stream, int* priority) {
  return in_context(&DriverTable::StreamGetPriority, Streams::per_thread, stream, priority);
}

SOFTGPU_CUDART cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  return in_context(&DriverTable::StreamGetId, Streams::legacy, stream, id);
}
SOFTGPU_CUDART cudaError_t cudaStreamGetId_ptsz(cudaStream_t stream, unsigned long long* id) {
  return in_context(&DriverTable::StreamGetId, Streams::per_thread, stream, id);
}

SOFTGPU_CUDART cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return is_capturing(stream, status, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaStreamIsCapturing_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  return is_capturing(stream, status, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                    unsigned long long* id, cudaGraph_t* graph,
                                                    const cudaGraphNode_t** nodes,
                                                    const cudaGraphEdgeData** edges, std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaStreamGetCaptureInfo_ptsz(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                                         unsigned long long* id, cudaGraph_t* graph,
                                                         const cudaGraphNode_t** nodes,
                                                         const cudaGraphEdgeData** edges,
                                                         std::size_t* count) {
  return capture_info(stream, status, id, graph, nodes, edges, count, Streams::per_thread);
}
SOFTGPU_CUDART cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return in_context(&DriverTable::ThreadExchangeStreamCaptureMode, Streams::legacy,
                    reinterpret_cast<CUstreamCaptureMode*>(mode));
}

SOFTGPU_CUDART cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return in_context(&DriverTable::LaunchHostFunc, Streams::legacy, stream, function, data);
}
SOFTGPU_CUDART cudaError_t cudaLaunchHostFunc_ptsz(cudaStream_t stream, cudaHostFn_t function, void* data) {
  return in_context(&DriverTable::LaunchHostFunc, Streams::per_thread, stream, function, data);
}

SOFTGPU_CUDART cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                                 void* data, unsigned flags) {
  return add_callback(stream, function, data, flags, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaStreamAddCallback_ptsz(cudaStream_t stream, cudaStreamCallback_t function,
                                                      void* data, unsigned flags) {
  return add_callback(stream, function, data, flags, Streams::per_thread);
}

// --- events
// --------------------------------------------------------------------------------------------------

SOFTGPU_CUDART cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return in_context(&DriverTable::EventCreate, Streams::legacy, event, flags);
}
SOFTGPU_CUDART cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}
SOFTGPU_CUDART cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return in_context(&DriverTable::EventDestroy, Streams::legacy, event);
}
SOFTGPU_CUDART cudaError_t cudaEventQuery(cudaEvent_t event) {
  return in_context(&DriverTable::EventQuery, Streams::legacy, event);
}
SOFTGPU_CUDART cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return in_context(&DriverTable::EventSynchronize, Streams::legacy, event);
}
SOFTGPU_CUDART cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return in_context(&DriverTable::EventElapsedTime, Streams::legacy, milliseconds, start, end);
}

SOFTGPU_CUDART cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return in_context(&DriverTable::EventRecord, Streams::legacy, event, stream);
}
SOFTGPU_CUDART cudaError_t cudaEventRecord_ptsz(cudaEvent_t event, cudaStream_t stream) {
  return in_context(&DriverTable::EventRecord, Streams::per_thread, event, stream);
}
SOFTGPU_CUDART cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return in_context(&DriverTable::EventRecordWithFlags, Streams::legacy, event, stream, flags);
}
SOFTGPU_CUDART cudaError_t cudaEventRecordWithFlags_ptsz(cudaEvent_t event, cudaStream_t stream,
                                                         unsigned flags) {
  return in_context(&DriverTable::EventRecordWithFlags, Streams::per_thread, event, stream, flags);
}
