// Time and the public ids of contexts and streams.
#include "softgpu/cupti/driver.h"
#include "softgpu/cupti/export.h"

using softgpu::cupti::driver;

SOFTGPU_CUPTI cuptiGetTimestamp(std::uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  *timestamp = static_cast<std::uint64_t>(driver()->now());
  return CUPTI_SUCCESS;
}

SOFTGPU_CUPTI cuptiGetContextId(CUcontext context, std::uint32_t* id) {
  if (id == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  *id = driver()->context_id(context);
  return *id != 0 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

SOFTGPU_CUPTI cuptiGetDeviceId(CUcontext context, std::uint32_t* id) {
  if (id == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  *id = 0;  // there is one device
  return driver()->context_id(context) != 0 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_CONTEXT;
}

SOFTGPU_CUPTI cuptiGetStreamIdEx(CUcontext context, CUstream stream, std::uint8_t per_thread,
                                 std::uint32_t* id) {
  if (id == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (driver() == nullptr) return CUPTI_ERROR_NOT_INITIALIZED;
  *id = driver()->stream_id(context, stream, per_thread != 0);
  return *id != 0 ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_STREAM;
}

SOFTGPU_CUPTI cuptiGetStreamId(CUcontext context, CUstream stream, std::uint32_t* id) {
  return cuptiGetStreamIdEx(context, stream, 0, id);
}
