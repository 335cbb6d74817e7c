// The activity API: kinds, buffers, attributes, external correlation.
#include <cstring>
#include <map>

#include "softgpu/cupti/driver.h"
#include "softgpu/cupti/export.h"
#include "softgpu/cupti/recorder.h"
#include "softgpu/cupti/records.h"

using softgpu::cupti::Recorder;

namespace {

// Attributes of the vendor's own device buffers, which the software GPU does not need: kept, and without
// effect.
std::map<CUpti_ActivityAttribute, std::size_t>& sizes() {
  static std::map<CUpti_ActivityAttribute, std::size_t> values = {
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_SIZE, 3200000},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_POOL_LIMIT, 250},
      {CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE, 3},
  };
  return values;
}

bool* flag(CUpti_ActivityAttribute attribute) {
  auto& buffers = Recorder::instance().buffers();
  if (attribute == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER) return &buffers.per_thread;
  if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) return &buffers.zeroed;
  static bool host_pinned = false;  // where the vendor's device buffers lie
  if (attribute == CUPTI_ACTIVITY_ATTR_MEM_ALLOCATION_TYPE_HOST_PINNED) return &host_pinned;
  return nullptr;
}

// Copies between an attribute of type T and the caller's `value`.
template <class T, class Stored>
CUptiResult exchange(Stored& stored, bool write, std::size_t* bytes, void* value) {
  if (*bytes < sizeof(T)) return CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT;
  T own = static_cast<T>(stored);
  std::memcpy(write ? static_cast<void*>(&own) : value, write ? value : static_cast<void*>(&own), sizeof own);
  if (write) stored = static_cast<Stored>(own);
  *bytes = sizeof own;
  return CUPTI_SUCCESS;
}

CUptiResult attribute(CUpti_ActivityAttribute which, bool write, std::size_t* bytes, void* value) {
  if (softgpu::cupti::driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  if (bytes == nullptr || value == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (bool* const stored = flag(which)) return exchange<std::uint8_t>(*stored, write, bytes, value);
  const auto found = sizes().find(which);
  if (found == sizes().end()) return CUPTI_ERROR_INVALID_PARAMETER;
  return exchange<std::size_t>(found->second, write, bytes, value);
}

}  // namespace

SOFTGPU_CUPTI cuptiActivityEnable(CUpti_ActivityKind kind) {
  return Recorder::instance().enable(kind);
}

SOFTGPU_CUPTI cuptiActivityDisable(CUpti_ActivityKind kind) {
  return Recorder::instance().disable(kind);
}

SOFTGPU_CUPTI cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                             CUpti_BuffersCallbackCompleteFunc complete) {
  if (request == nullptr || complete == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  Recorder::instance().buffers().use(request, complete);
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityFlushAll(std::uint32_t flags) {
  const auto* const driver = softgpu::cupti::driver();
  if (driver == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  auto& buffers = Recorder::instance().buffers();
  if (!buffers.ready()) return CUPTI_ERROR_INVALID_OPERATION;
  buffers.flush(driver->now(), (flags & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED) != 0);
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityGetNextRecord(std::uint8_t* buffer, std::size_t bytes, CUpti_Activity** record) {
  if (buffer == nullptr || record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* next = buffer;
  if (*record != nullptr) {
    next = reinterpret_cast<std::uint8_t*>(*record) + softgpu::cupti::record_bytes((*record)->kind);
  }
  if (next >= buffer + bytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  const std::size_t length = softgpu::cupti::record_bytes(found->kind);
  if (length == 0 || next + length > buffer + bytes) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = Recorder::instance().buffers().take_dropped();
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t id) {
  auto* const ids = Recorder::external_ids(kind);
  if (ids == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  ids->push_back(id);
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, std::uint64_t* last) {
  auto* const ids = Recorder::external_ids(kind);
  if (ids == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (ids->empty()) return CUPTI_ERROR_QUEUE_EMPTY;
  if (last != nullptr) *last = ids->back();
  ids->pop_back();
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiActivityGetAttribute(CUpti_ActivityAttribute which, std::size_t* bytes, void* value) {
  return attribute(which, false, bytes, value);
}

SOFTGPU_CUPTI cuptiActivitySetAttribute(CUpti_ActivityAttribute which, std::size_t* bytes, void* value) {
  return attribute(which, true, bytes, value);
}
