#include "softgpu/driver/api/api.h"
#include "softgpu/driver/order/capture.h"

using namespace softgpu;

namespace {

Event* find(Machine& m, CUevent event) {
  const auto found = m.events.find(event);
  return found == m.events.end() ? nullptr : found->second.get();
}

CUresult destroy(const char* name, CUevent event) {
  SOFTGPU_CALL(name, needs_driver);
  return m.events.erase(event) == 0 ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

CUresult record(const char* name, bool per_thread, CUevent which, CUstream in, unsigned flags) {
  SOFTGPU_CALL(name, needs_context, &Model::event);
  Event* const event = find(m, which);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (event == nullptr || stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_EVENT_RECORD_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  // Who still waits for the earlier point keeps it.
  if (!event->record || event->record.use_count() > 1) event->record = std::make_shared<Record>();
  event->record->done = false;
  event->record->capture = nullptr;
  return m.scheduler.record(call.lock, stream, event->record, call.name, call.number);
}

CUresult elapsed(const char* name, float* milliseconds, CUevent begin, CUevent end) {
  SOFTGPU_CALL(name, needs_driver, &Model::query);
  const Event* const first = find(m, begin);
  const Event* const last = find(m, end);
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (first == nullptr || last == nullptr || !first->record || !last->record)
    return CUDA_ERROR_INVALID_HANDLE;
  if (first->record->capture || last->record->capture) return CUDA_ERROR_CAPTURED_EVENT;
  if (((first->flags | last->flags) & CU_EVENT_DISABLE_TIMING) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (!m.scheduler.finished(call.lock, first->record) || !m.scheduler.finished(call.lock, last->record)) {
    return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = static_cast<float>(static_cast<double>(last->record->time - first->record->time) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_EXPORT(cuEventCreate)(CUevent* out, unsigned flags) {
  SOFTGPU_CALL(__func__, needs_context, &Model::event);
  constexpr unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (out == nullptr || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto event = std::make_unique<Event>();
  event->flags = flags;
  event->context = call.context;
  *out = reinterpret_cast<CUevent>(event.get());
  m.events.emplace(*out, std::move(event));
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuEventDestroy)(CUevent event) {
  return destroy(__func__, event);
}
SOFTGPU_EXPORT(cuEventDestroy_v2)(CUevent event) {
  return destroy(__func__, event);
}

SOFTGPU_EXPORT(cuEventRecord)(CUevent event, CUstream stream) {
  return record(__func__, false, event, stream, 0);
}
SOFTGPU_EXPORT(cuEventRecord_ptsz)(CUevent event, CUstream stream) {
  return record(__func__, true, event, stream, 0);
}
SOFTGPU_EXPORT(cuEventRecordWithFlags)(CUevent event, CUstream stream, unsigned flags) {
  return record(__func__, false, event, stream, flags);
}
SOFTGPU_EXPORT(cuEventRecordWithFlags_ptsz)(CUevent event, CUstream stream, unsigned flags) {
  return record(__func__, true, event, stream, flags);
}

SOFTGPU_EXPORT(cuEventQuery)(CUevent which) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::query);
  const Event* const event = find(m, which);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (!event->record) return CUDA_SUCCESS;
  if (event->record->capture) return event->record->capture->spoilt(CUDA_ERROR_CAPTURED_EVENT);
  const bool done = m.scheduler.finished(call.lock, event->record);
  if (m.violations.sticky()) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

SOFTGPU_EXPORT(cuEventSynchronize)(CUevent which) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::synchronize);
  const Event* const event = find(m, which);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (event->record && event->record->capture)
    return event->record->capture->spoilt(CUDA_ERROR_CAPTURED_EVENT);
  if (event->record) m.scheduler.wait(call.lock, RecordPtr(event->record));
  return call.waited();
}

SOFTGPU_EXPORT(cuEventElapsedTime)(float* milliseconds, CUevent begin, CUevent end) {
  return elapsed(__func__, milliseconds, begin, end);
}
SOFTGPU_EXPORT(cuEventElapsedTime_v2)(float* milliseconds, CUevent begin, CUevent end) {
  return elapsed(__func__, milliseconds, begin, end);
}
