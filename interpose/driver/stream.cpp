// Streams: which ones may wait for the program itself, which ones go away.
#include "interpose/hooks/stream.h"
#include "interpose/calls/capture.h"
#include "interpose/driver/operands.h"
#include "interpose/driver/small_blocks.h"
#include "interpose/hooks/captures.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/context.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

// Who begins to watch waits for the device, which may then wait for the program.
void watch(const Scope& scope) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session != nullptr) session->watch();
}

void note_host_blocking(const Scope& scope, StreamHandle stream) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session != nullptr) session->note_host_blocking(stream);
}

template <class RealCall>
CUresult destroy_stream(const Scope& scope, CUstream stream, RealCall&& real) {
  if (scope.outermost() && stream != nullptr)
    each_session(scope, [&](runtime::Session& session) { session.stream_destroyed(stream_of(stream)); });
  if (stream != nullptr && open_session() != nullptr) stream_leaves_blocks(scope, stream_of(stream));
  const CUresult status = real();
  if (any_capture()) forget_capture(stream_of(stream));
  return status;
}

}  // namespace

// CUDA 3.2's form means the same.
#define POOCH_STREAM_DESTROY(function) \
  POOCH_DRIVER_HOOK(function, (CUstream hStream), (hStream), return destroy_stream(scope, hStream, launch);)
POOCH_STREAM_DESTROY(cuStreamDestroy)
POOCH_STREAM_DESTROY(cuStreamDestroy_v2)

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

// --- words that a stream waits for or writes

namespace {

template <class RealCall>
CUresult submit_values(const Scope& scope, const char* function, StreamHandle stream,
                       std::span<const CUstreamBatchMemOpParams> ops, RealCall&& real) {
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real();
  const bool waits = waits_for_value(ops);
  if (waits) session->watch();
  CallBuilder call(scope, *session, function, OpKind::bare_launch, stream);
  add_values(call, ops);
  const CUresult status = call.submit(CUDA_ERROR_OUT_OF_MEMORY, real);
  if (waits && status == CUDA_SUCCESS) session->note_host_blocking(stream);
  return status;
}

CUstreamBatchMemOpParams wait_for(CUstreamBatchMemOpType operation, CUdeviceptr address) {
  CUstreamBatchMemOpParams op = {};
  op.waitValue.operation = operation;
  op.waitValue.address = address;
  return op;
}

}  // namespace

#define POOCH_WAIT_VALUE(function, for_zero, bits)                                                      \
  POOCH_DRIVER_HOOK(                                                                                    \
      function, (CUstream stream, CUdeviceptr addr, cuuint##bits##_t value, unsigned int flags),        \
      (stream, addr, value, flags), const auto op = wait_for(CU_STREAM_MEM_OP_WAIT_VALUE_##bits, addr); \
      return submit_values(scope, #function, stream_of(stream, for_zero), {&op, 1}, launch);)
#define POOCH_BATCH_OF_VALUES(function, for_zero)                                                      \
  POOCH_DRIVER_HOOK(                                                                                   \
      function,                                                                                        \
      (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* paramArray, unsigned int flags), \
      (stream, count, paramArray, flags), if (paramArray == nullptr) return launch();                  \
      return submit_values(scope, #function, stream_of(stream, for_zero), {paramArray, count}, launch);)
// CUDA 8's form means the same, and takes the same.
#define POOCH_VALUES_IN_BOTH_FORMS(form)                                           \
  POOCH_WAIT_VALUE(cuStreamWaitValue32##form, StreamHandle::legacy, 32)            \
  POOCH_WAIT_VALUE(cuStreamWaitValue64##form, StreamHandle::legacy, 64)            \
  POOCH_BATCH_OF_VALUES(cuStreamBatchMemOp##form, StreamHandle::legacy)            \
  POOCH_WAIT_VALUE(cuStreamWaitValue32##form##_ptsz, StreamHandle::per_thread, 32) \
  POOCH_WAIT_VALUE(cuStreamWaitValue64##form##_ptsz, StreamHandle::per_thread, 64) \
  POOCH_BATCH_OF_VALUES(cuStreamBatchMemOp##form##_ptsz, StreamHandle::per_thread)

POOCH_VALUES_IN_BOTH_FORMS()
POOCH_VALUES_IN_BOTH_FORMS(_v2)
