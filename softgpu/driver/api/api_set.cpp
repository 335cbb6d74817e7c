// Memory sets. All of them are asynchronous towards the host.
#include <cstring>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

template <typename Value>
void fill(std::uint64_t address, std::uint64_t pitch, Value value, std::size_t width, std::size_t height) {
  for (std::size_t row = 0; row < height; ++row) {
    auto* const at = reinterpret_cast<Value*>(address + row * pitch);
    if constexpr (sizeof(Value) == 1) {
      std::memset(at, value, width);
    } else {
      std::fill_n(at, width, value);
    }
  }
}

// Four bytes of it.
template <typename Value>
std::uint32_t repeated(Value value) {
  return sizeof(Value) == 1 ? value * 0x01010101U : sizeof(Value) == 2 ? value * 0x00010001U : value;
}

template <typename Value>
CUresult set(const char* name, bool per_thread, CUdeviceptr address, std::size_t pitch, Value value,
             std::size_t width, std::size_t height, CUstream in, bool async) {
  SOFTGPU_CALL(name, needs_context, &Model::copy_submit);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  const std::uint64_t row = width * sizeof(Value);
  if (address % sizeof(Value) != 0 || (height > 1 && (pitch < row || pitch % sizeof(Value) != 0))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (height > 1 && pitch == row) {
    width *= height;
    height = 1;
  }
  const std::uint64_t span = (height - 1) * pitch + width * sizeof(Value);
  const bool on_host = m.host.find(address) != nullptr;
  if (!on_host && !m.checker.valid_device(address, span)) {
    m.checker.refuse(address, span, true, call.host_access());
    return CUDA_ERROR_INVALID_VALUE;
  }
  Work work = call.work();
  work.engine = Engine::compute;
  work.duration = m.cost.set(width * height * sizeof(Value));
  for (std::size_t i = 0; i < height; ++i) {
    work.touches.push_back({address + i * pitch, width * sizeof(Value), TouchKind::write});
  }
  if (m.compute()) {
    work.run = [=] { fill(address, pitch, value, width, height); };
  } else {
    work.content.kind = Content::Kind::set;
    work.content.identity = repeated(value);
  }
  if (activity_feed().wants(activity_sets) && !stream->capture) {
    WorkActivity activity = call.activity(activity_sets);
    activity.async = async;
    activity.bytes = width * height * sizeof(Value);
    activity.value = value;
    activity.to = on_host ? CopySide::pinned : CopySide::device;
    activity_feed().follow(work, activity);
  }
  return m.scheduler.submit(call.lock, stream, std::move(work));
}

}  // namespace

// The four entry points of one width: plain and asynchronous, each with its per-thread variant.
#define SOFTGPU_SET(bits, type)                                                                          \
  SOFTGPU_EXPORT(cuMemsetD##bits##_v2)(CUdeviceptr at, type value, size_t n) {                           \
    return set<type>(__func__, false, at, 0, value, n, 1, nullptr, false);                               \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD##bits##_v2_ptds)(CUdeviceptr at, type value, size_t n) {                      \
    return set<type>(__func__, true, at, 0, value, n, 1, nullptr, false);                                \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD##bits##Async)(CUdeviceptr at, type value, size_t n, CUstream s) {             \
    return set<type>(__func__, false, at, 0, value, n, 1, s, true);                                      \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD##bits##Async_ptsz)(CUdeviceptr at, type value, size_t n, CUstream s) {        \
    return set<type>(__func__, true, at, 0, value, n, 1, s, true);                                       \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD2D##bits##_v2)(CUdeviceptr at, size_t pitch, type value, size_t w, size_t h) { \
    return set<type>(__func__, false, at, pitch, value, w, h, nullptr, false);                           \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD2D##bits##_v2_ptds)                                                            \
  (CUdeviceptr at, size_t pitch, type value, size_t w, size_t h) {                                       \
    return set<type>(__func__, true, at, pitch, value, w, h, nullptr, false);                            \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD2D##bits##Async)                                                               \
  (CUdeviceptr at, size_t pitch, type value, size_t w, size_t h, CUstream s) {                           \
    return set<type>(__func__, false, at, pitch, value, w, h, s, true);                                  \
  }                                                                                                      \
  SOFTGPU_EXPORT(cuMemsetD2D##bits##Async_ptsz)                                                          \
  (CUdeviceptr at, size_t pitch, type value, size_t w, size_t h, CUstream s) {                           \
    return set<type>(__func__, true, at, pitch, value, w, h, s, true);                                   \
  }

SOFTGPU_SET(8, unsigned char)
SOFTGPU_SET(16, unsigned short)
SOFTGPU_SET(32, unsigned int)
