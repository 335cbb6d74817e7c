// Streams: which ones may wait for the program itself, which ones go away, which ones are captured.
#include <atomic>
#include <mutex>
#include <set>

#include "core/log.h"
#include "interpose/capture.h"
#include "interpose/driver_api.h"
#include "interpose/libraries.h"
#include "interpose/process.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuStreamDestroy_v2);
POOCH_REAL(cuda, cuStreamIsCapturing);

// In which capture was begun and has not been ended.
struct Capturing {
  std::mutex mutex;  // a leaf
  std::set<StreamHandle> streams;
};
Capturing& capturing() {
  static auto* const one = new Capturing;  // never destroyed, like all that hooks use
  return *one;
}
constinit std::atomic<std::size_t> captures{0};

bool is_capturing(const Scope& scope, StreamHandle stream) {
  auto* const ask = real_cuStreamIsCapturing.get(scope);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  // The legacy stream answers with an error while another stream captures; it does not capture itself.
  return ask != nullptr && ask(reinterpret_cast<CUstream>(stream), &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// After a call that begins or ends capture in `stream`, whatever became of it.
void note_capture(const Scope& scope, StreamHandle stream) {
  const bool now = is_capturing(scope, stream);
  const std::lock_guard lock(capturing().mutex);
  if (now) {
    capturing().streams.insert(stream);
  } else {
    capturing().streams.erase(stream);
  }
  captures.store(capturing().streams.size());
}

void forget_capture(StreamHandle stream) {
  const std::lock_guard lock(capturing().mutex);
  capturing().streams.erase(stream);
  captures.store(capturing().streams.size());
}

void note_host_blocking(const Scope& scope, StreamHandle stream) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session != nullptr) session->note_host_blocking(stream);
}

void warn_of_graphs() {
  static std::atomic<bool> reported{false};
  if (open_session() != nullptr && !reported.exchange(true)) {
    log::warn(
        "CUDA graphs pass through: operands that are away when a graph runs make it fail; run without "
        "graphs");
  }
}

}  // namespace

namespace pooch::interpose {

bool any_capture() {
  return captures.load(std::memory_order_relaxed) != 0;
}

bool captured(const Scope& scope, StreamHandle stream) {
  return any_capture() && is_capturing(scope, stream);
}

}  // namespace pooch::interpose

POOCH_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) {
  const Scope scope;
  auto* const real = real_cuStreamDestroy_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  runtime::Session* const session = scope.outermost() && hStream != nullptr ? open_session() : nullptr;
  if (session != nullptr) session->stream_destroyed(stream_of(hStream));
  const CUresult status = real(hStream);
  if (any_capture()) forget_capture(stream_of(hStream));
  return status;
}

// A function whose work in `stream` may wait for the program. Noted behind it: an event recorded before it
// says nothing about it.
#define POOCH_HOST_BLOCKING(function, stream, for_zero, parameters, arguments)          \
  namespace {                                                                           \
  POOCH_REAL(cuda, function);                                                           \
  }                                                                                     \
  POOCH_EXPORT CUresult function parameters {                                           \
    const Scope scope;                                                                  \
    auto* const real = real_##function.get(scope);                                      \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;                   \
    const CUresult status = real arguments;                                             \
    if (status == CUDA_SUCCESS) note_host_blocking(scope, stream_of(stream, for_zero)); \
    return status;                                                                      \
  }
#define POOCH_HOST_BLOCKING_BOTH(function, stream, parameters, arguments)            \
  POOCH_HOST_BLOCKING(function, stream, StreamHandle::legacy, parameters, arguments) \
  POOCH_HOST_BLOCKING(function##_ptsz, stream, StreamHandle::per_thread, parameters, arguments)

POOCH_HOST_BLOCKING_BOTH(cuLaunchHostFunc, hStream, (CUstream hStream, CUhostFn fn, void* userData),
                         (hStream, fn, userData))
POOCH_HOST_BLOCKING_BOTH(cuStreamAddCallback, hStream,
                         (CUstream hStream, CUstreamCallback callback, void* userData, unsigned int flags),
                         (hStream, callback, userData, flags))
POOCH_HOST_BLOCKING_BOTH(cuStreamWaitValue32_v2, stream,
                         (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
                         (stream, addr, value, flags))
POOCH_HOST_BLOCKING_BOTH(cuStreamWaitValue64_v2, stream,
                         (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
                         (stream, addr, value, flags))
POOCH_HOST_BLOCKING_BOTH(cuStreamBatchMemOp_v2, stream,
                         (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray,
                          unsigned int flags),
                         (stream, count, paramArray, flags))

// `then(status)` follows the real call.
#define POOCH_CAPTURE(function, parameters, arguments, then)          \
  namespace {                                                         \
  POOCH_REAL(cuda, function);                                         \
  }                                                                   \
  POOCH_EXPORT CUresult function parameters {                         \
    const Scope scope;                                                \
    auto* const real = real_##function.get(scope);                    \
    if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED; \
    warn_of_graphs();                                                 \
    const CUresult status = real arguments;                           \
    then;                                                             \
    return status;                                                    \
  }

#define POOCH_CAPTURE_BOTH(function, parameters, arguments)                               \
  POOCH_CAPTURE(function, parameters, arguments, note_capture(scope, stream_of(hStream))) \
  POOCH_CAPTURE(function##_ptsz, parameters, arguments,                                   \
                note_capture(scope, stream_of(hStream, StreamHandle::per_thread)))

POOCH_CAPTURE_BOTH(cuStreamBeginCapture_v2, (CUstream hStream, CUstreamCaptureMode mode), (hStream, mode))
POOCH_CAPTURE_BOTH(cuStreamBeginCaptureToGraph,
                   (CUstream hStream, CUgraph hGraph, const CUgraphNode* dependencies,
                    const CUgraphEdgeData* dependencyData, size_t numDependencies, CUstreamCaptureMode mode),
                   (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
POOCH_CAPTURE_BOTH(cuStreamEndCapture, (CUstream hStream, CUgraph* phGraph), (hStream, phGraph))
POOCH_CAPTURE(cuGraphLaunch, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream), )
POOCH_CAPTURE(cuGraphLaunch_ptsz, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream), )
