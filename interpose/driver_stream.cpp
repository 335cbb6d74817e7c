// Streams: which ones may wait for the program itself, which ones go away.
#include "interpose/capture.h"
#include "interpose/driver_api.h"
#include "interpose/libraries.h"
#include "interpose/process.h"
#include "interpose/small_blocks.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuStreamDestroy_v2);

// Who begins to watch waits for the device, which may then wait for the program.
void watch(const Scope& scope) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session != nullptr) session->watch();
}

void note_host_blocking(const Scope& scope, StreamHandle stream) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session != nullptr) session->note_host_blocking(stream);
}

}  // namespace

POOCH_EXPORT CUresult cuStreamDestroy_v2(CUstream hStream) {
  const Scope scope;
  auto* const real = real_cuStreamDestroy_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (scope.outermost() && hStream != nullptr)
    each_session(scope, [&](runtime::Session& session) { session.stream_destroyed(stream_of(hStream)); });
  if (hStream != nullptr && open_session() != nullptr) stream_leaves_blocks(scope, stream_of(hStream));
  const CUresult status = real(hStream);
  if (any_capture()) forget_capture(stream_of(hStream));
  return status;
}

// A function whose work in `stream` may wait for the program. Noted behind it: an event recorded before it
// says nothing about it. Calls are watched from before it on.
#define POOCH_HOST_BLOCKING(function, stream, for_zero, parameters, arguments)                          \
  POOCH_DRIVER_HOOK(function, parameters, arguments, watch(scope); const CUresult status = launch();    \
                    if (status == CUDA_SUCCESS) note_host_blocking(scope, stream_of(stream, for_zero)); \
                    return status;)
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
