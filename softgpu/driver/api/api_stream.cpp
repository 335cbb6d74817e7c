#include <cstring>

#include "softgpu/driver/api/api.h"
#include "softgpu/driver/order/capture.h"

using namespace softgpu;

namespace {

CUstream handle(const StreamPtr& stream) {
  return reinterpret_cast<CUstream>(stream.get());
}

CUresult create(const char* name, CUstream* out, unsigned flags, int priority) {
  SOFTGPU_CALL(name, needs_context, &Model::event);
  if (out == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const StreamPtr stream = m.scheduler.add_stream(call.context, flags, std::max(-5, std::min(0, priority)));
  m.streams.emplace(handle(stream), stream);
  *out = handle(stream);
  return CUDA_SUCCESS;
}

CUresult destroy(const char* name, CUstream which) {
  SOFTGPU_CALL(name, needs_driver);
  const auto found = m.streams.find(which);
  if (found == m.streams.end()) return CUDA_ERROR_INVALID_HANDLE;
  m.scheduler.retire(found->second);
  m.streams.erase(found);
  return CUDA_SUCCESS;
}

CUresult wait_event(const char* name, bool per_thread, CUstream which, CUevent event, unsigned flags) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::event);
  const auto found = m.events.find(event);
  if (found == m.events.end()) return CUDA_ERROR_INVALID_HANDLE;
  if (flags > CU_EVENT_WAIT_EXTERNAL) return CUDA_ERROR_INVALID_VALUE;
  if (!found->second->record) return CUDA_SUCCESS;  // never recorded: nothing to wait for
  const RecordPtr& record = found->second->record;
  if (stream->capture || record->capture)
    return flags == CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_NOT_SUPPORTED : join_capture(stream, *record);
  Work work = call.work();
  work.after.push_back({record, nullptr, 0});
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

CUresult query(const char* name, bool per_thread, CUstream which) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::query);
  if (stream->capture) return stream->capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  const bool done = m.scheduler.finished(call.lock, stream);
  if (m.violations.sticky()) return CUDA_ERROR_ILLEGAL_ADDRESS;
  return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult synchronize(const char* name, bool per_thread, CUstream which) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::synchronize);
  if (stream->capture) return stream->capture->spoilt(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  m.scheduler.wait(call.lock, stream);
  return call.waited();
}

CUresult launch_host(const char* name, bool per_thread, CUstream which, CUhostFn function, void* data) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::event);
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Work work = call.work();
  work.host_function = [function, data] { function(data); };
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

CUresult add_callback(const char* name, bool per_thread, CUstream which, CUstreamCallback callback,
                      void* data, unsigned flags) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::event);
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Work work = call.work();
  work.host_function = [callback, data, which] { callback(which, CUDA_SUCCESS, data); };
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

// Wait-values and write-values order streams and the host through memory. Page-locked memory holds the value
// itself; device memory has content in compute mode only, so that its values live in cells.
std::uint64_t load(Machine& m, std::uint64_t address, unsigned bytes) {
  if (m.host.find(address) == nullptr && !m.compute()) return m.cells[address].value;
  std::uint64_t value = 0;
  if (bytes == 4) {
    value = __atomic_load_n(reinterpret_cast<const std::uint32_t*>(address), __ATOMIC_ACQUIRE);
  } else {
    value = __atomic_load_n(reinterpret_cast<const std::uint64_t*>(address), __ATOMIC_ACQUIRE);
  }
  return value;
}

void store(Machine& m, std::uint64_t address, std::uint64_t value, unsigned bytes) {
  m.cells[address].value = value;
  if (m.host.find(address) == nullptr && !m.compute()) return;
  if (bytes == 4) {
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(address), static_cast<std::uint32_t>(value),
                     __ATOMIC_RELEASE);
  } else {
    __atomic_store_n(reinterpret_cast<std::uint64_t*>(address), value, __ATOMIC_RELEASE);
  }
}

bool satisfied(std::uint64_t held, std::uint64_t value, unsigned condition, unsigned bytes) {
  switch (condition) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return bytes == 4 ? static_cast<std::int32_t>(held - value) >= 0
                        : static_cast<std::int64_t>(held - value) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return held == value;
    case CU_STREAM_WAIT_VALUE_AND:
      return (held & value) != 0;
    default:
      return ~(held | value) << (bytes == 4 ? 32 : 0) != 0;  // nor
  }
}

CUresult wait_value(const char* name, bool per_thread, CUstream which, CUdeviceptr address,
                    std::uint64_t value, unsigned flags, unsigned bytes) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::event);
  const unsigned condition = flags & 3u;
  if (address % bytes != 0 || (flags & ~(3u | CU_STREAM_WAIT_VALUE_FLUSH)) != 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!m.checker.valid_device(address, bytes) && m.host.find(address) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Work work = call.work();
  Machine* const device = call.m;
  const Nanoseconds submitted = m.scheduler.now;
  // A wait met only later was met by what happened meanwhile.
  auto waited = std::make_shared<bool>(false);
  work.gate = [=] {
    const bool met = satisfied(load(*device, address, bytes), value, condition, bytes);
    *waited = *waited || !met;
    return met;
  };
  work.finish = [=](const Access& by, Stream& in) {
    if (!device->checker.reachable(address, bytes, by)) return;
    const Machine::Cell& cell = device->cells[address];
    in.clock.join(cell.clock);
    in.time = std::max({in.time, submitted, cell.time});
    in.clock.join(device->scheduler.host_clock());
    if (*waited && device->host.find(address) != nullptr) in.time = std::max(in.time, device->scheduler.now);
  };
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

CUresult write_value(const char* name, bool per_thread, CUstream which, CUdeviceptr address,
                     std::uint64_t value, unsigned flags, unsigned bytes) {
  SOFTGPU_STREAM_CALL(name, per_thread, &Model::event);
  if (address % bytes != 0 || (flags & ~unsigned{CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!m.checker.valid_device(address, bytes) && m.host.find(address) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  Work work = call.work();
  Machine* const device = call.m;
  work.finish = [=](const Access& by, Stream& in) {
    if (!device->checker.reachable(address, bytes, by)) return;
    store(*device, address, value, bytes);
    Machine::Cell& cell = device->cells[address];
    cell.clock.join(in.clock);
    cell.time = in.time;
  };
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

CUresult get_context(const char* name, bool per_thread, CUstream which, CUcontext* out) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUcontext>(stream->context);
  return CUDA_SUCCESS;
}

CUresult get_flags(const char* name, bool per_thread, CUstream which, unsigned* flags) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult get_priority(const char* name, bool per_thread, CUstream which, int* priority) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult get_id(const char* name, bool per_thread, CUstream which, unsigned long long* id) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult get_device(const char* name, bool per_thread, CUstream which, CUdevice* device) {
  SOFTGPU_STREAM_CALL(name, per_thread, nullptr);
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = stream->device;
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_EXPORT(cuStreamCreate)(CUstream* out, unsigned flags) {
  return create(__func__, out, flags, 0);
}
SOFTGPU_EXPORT(cuStreamCreateWithPriority)(CUstream* out, unsigned flags, int priority) {
  return create(__func__, out, flags, priority);
}
SOFTGPU_EXPORT(cuStreamDestroy)(CUstream stream) {
  return destroy(__func__, stream);
}
SOFTGPU_EXPORT(cuStreamDestroy_v2)(CUstream stream) {
  return destroy(__func__, stream);
}

SOFTGPU_BOTH(cuStreamWaitEvent, cuStreamWaitEvent_ptsz, wait_event,
             (CUstream s, CUevent event, unsigned flags), s, event, flags)
SOFTGPU_BOTH(cuStreamQuery, cuStreamQuery_ptsz, query, (CUstream s), s)
SOFTGPU_BOTH(cuStreamSynchronize, cuStreamSynchronize_ptsz, synchronize, (CUstream s), s)
SOFTGPU_BOTH(cuLaunchHostFunc, cuLaunchHostFunc_ptsz, launch_host,
             (CUstream s, CUhostFn function, void* data), s, function, data)
SOFTGPU_BOTH(cuStreamAddCallback, cuStreamAddCallback_ptsz, add_callback,
             (CUstream s, CUstreamCallback callback, void* data, unsigned flags), s, callback, data, flags)
SOFTGPU_BOTH(cuStreamWaitValue32, cuStreamWaitValue32_ptsz, wait_value,
             (CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags), s, address, value, flags, 4)
SOFTGPU_BOTH(cuStreamWaitValue64, cuStreamWaitValue64_ptsz, wait_value,
             (CUstream s, CUdeviceptr address, cuuint64_t value, unsigned flags), s, address, value, flags, 8)
SOFTGPU_BOTH(cuStreamWaitValue32_v2, cuStreamWaitValue32_v2_ptsz, wait_value,
             (CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags), s, address, value, flags, 4)
SOFTGPU_BOTH(cuStreamWaitValue64_v2, cuStreamWaitValue64_v2_ptsz, wait_value,
             (CUstream s, CUdeviceptr address, cuuint64_t value, unsigned flags), s, address, value, flags, 8)
SOFTGPU_BOTH(cuStreamWriteValue32, cuStreamWriteValue32_ptsz, write_value,
             (CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags), s, address, value, flags, 4)
SOFTGPU_BOTH(cuStreamWriteValue64, cuStreamWriteValue64_ptsz, write_value,
             (CUstream s, CUdeviceptr address, cuuint64_t value, unsigned flags), s, address, value, flags, 8)
SOFTGPU_BOTH(cuStreamWriteValue32_v2, cuStreamWriteValue32_v2_ptsz, write_value,
             (CUstream s, CUdeviceptr address, cuuint32_t value, unsigned flags), s, address, value, flags, 4)
SOFTGPU_BOTH(cuStreamWriteValue64_v2, cuStreamWriteValue64_v2_ptsz, write_value,
             (CUstream s, CUdeviceptr address, cuuint64_t value, unsigned flags), s, address, value, flags, 8)
SOFTGPU_BOTH(cuStreamGetCtx, cuStreamGetCtx_ptsz, get_context, (CUstream s, CUcontext* out), s, out)
SOFTGPU_BOTH(cuStreamGetFlags, cuStreamGetFlags_ptsz, get_flags, (CUstream s, unsigned* flags), s, flags)
SOFTGPU_BOTH(cuStreamGetPriority, cuStreamGetPriority_ptsz, get_priority, (CUstream s, int* priority), s,
             priority)
SOFTGPU_BOTH(cuStreamGetId, cuStreamGetId_ptsz, get_id, (CUstream s, unsigned long long* id), s, id)
SOFTGPU_BOTH(cuStreamGetDevice, cuStreamGetDevice_ptsz, get_device, (CUstream s, CUdevice* device), s, device)
