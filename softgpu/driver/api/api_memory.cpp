// Plain allocations and page-locked memory.
#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

constexpr std::uint64_t pitch_alignment = 512;

CUresult host_allocate(const char* name, void** out, std::size_t bytes, unsigned flags) {
  SOFTGPU_CALL(name);
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (out == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::uint64_t base = m.host.allocate(bytes, flags);
  if (base == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  m.scheduler.now += m.cost.pin(bytes);
  m.checker.host_forget(base, bytes);
  *out = reinterpret_cast<void*>(base);
  return CUDA_SUCCESS;
}

CUresult host_register(const char* name, void* address, std::size_t bytes, unsigned flags) {
  SOFTGPU_CALL(name);
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                             CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (address == nullptr || bytes == 0 || (flags & ~known) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto base = reinterpret_cast<std::uint64_t>(address);
  switch (m.host.add_registered(base, bytes, flags & CU_MEMHOSTREGISTER_PORTABLE)) {
    case HostMemory::Add::overlaps:
      return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    case HostMemory::Add::exhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    case HostMemory::Add::added:
      break;
  }
  m.scheduler.now += m.cost.pin(bytes);
  m.checker.host_forget(base, bytes);
  return CUDA_SUCCESS;
}

}  // namespace

SOFTGPU_EXPORT(cuMemAlloc_v2)(CUdeviceptr* out, size_t bytes) {
  SOFTGPU_CALL(__func__, needs_context, &Model::allocate);
  return m.memory.allocate(call.lock, call.caller(), bytes, out);
}

SOFTGPU_EXPORT(cuMemAllocPitch_v2)
(CUdeviceptr* out, size_t* pitch, size_t width, size_t height, unsigned element) {
  SOFTGPU_CALL(__func__, needs_context, &Model::allocate);
  if (pitch == nullptr || width == 0 || height == 0 || (element != 4 && element != 8 && element != 16)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *pitch = (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment;
  if (*pitch < width || height > UINT64_MAX / *pitch) return CUDA_ERROR_OUT_OF_MEMORY;
  return m.memory.allocate(call.lock, call.caller(), *pitch * height, out);
}

SOFTGPU_EXPORT(cuMemFree_v2)(CUdeviceptr address) {
  SOFTGPU_CALL(__func__, needs_context, &Model::free);
  return m.memory.free(call.lock, call.caller(), address);
}

SOFTGPU_EXPORT(cuMemGetInfo_v2)(size_t* free_bytes, size_t* total) {
  SOFTGPU_CALL(__func__);
  if (free_bytes != nullptr) *free_bytes = m.physical.left(call.context->device);
  if (total != nullptr) *total = m.physical.capacity() + m.model().context_bytes;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemGetAddressRange_v2)(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  SOFTGPU_CALL(__func__);
  if (const Object* object = m.addresses.find(address)) {
    if (base != nullptr) *base = object->base;
    if (bytes != nullptr) *bytes = object->bytes;
    return CUDA_SUCCESS;
  }
  if (const Pinned* pinned = m.host.find(address)) {
    if (base != nullptr) *base = pinned->base;
    if (bytes != nullptr) *bytes = pinned->bytes;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_NOT_FOUND;
}

SOFTGPU_EXPORT(cuMemHostAlloc)(void** out, size_t bytes, unsigned flags) {
  return host_allocate(__func__, out, bytes, flags);
}
SOFTGPU_EXPORT(cuMemAllocHost_v2)(void** out, size_t bytes) {
  return host_allocate(__func__, out, bytes, 0);
}

SOFTGPU_EXPORT(cuMemFreeHost)(void* address) {
  SOFTGPU_CALL(__func__, needs_context, &Model::free);
  const auto base = reinterpret_cast<std::uint64_t>(address);
  const Pinned* pinned = m.host.starts(base);
  if (pinned == nullptr || pinned->registered) return CUDA_ERROR_INVALID_VALUE;
  m.scheduler.wait_context(call.lock, nullptr);
  pinned = m.host.starts(base);  // another thread may have been faster
  if (pinned == nullptr) return CUDA_ERROR_INVALID_VALUE;
  m.checker.host_forget(base, pinned->bytes);
  m.guard.forget(base, pinned->bytes);
  m.host.remove(base);
  return call.waited();
}

SOFTGPU_EXPORT(cuMemHostRegister)(void* address, size_t bytes, unsigned flags) {
  return host_register(__func__, address, bytes, flags);
}
SOFTGPU_EXPORT(cuMemHostRegister_v2)(void* address, size_t bytes, unsigned flags) {
  return host_register(__func__, address, bytes, flags);
}

SOFTGPU_EXPORT(cuMemHostUnregister)(void* address) {
  SOFTGPU_CALL(__func__, needs_context, &Model::free);
  const auto base = reinterpret_cast<std::uint64_t>(address);
  const Pinned* pinned = m.host.starts(base);
  if (pinned == nullptr || !pinned->registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  const Access by = call.host_access();
  m.checker.host_changes(base, pinned->bytes, by, m.scheduler.host_clock());
  m.checker.host_forget(base, pinned->bytes);
  m.guard.forget(base, pinned->bytes);
  m.host.remove(base);
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemHostGetDevicePointer_v2)(CUdeviceptr* out, void* address, unsigned flags) {
  SOFTGPU_CALL(__func__);
  const auto at = reinterpret_cast<std::uint64_t>(address);
  if (out == nullptr || flags != 0 || m.host.find(at) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = at;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemHostGetFlags)(unsigned* flags, void* address) {
  SOFTGPU_CALL(__func__);
  const Pinned* pinned = m.host.find(reinterpret_cast<std::uint64_t>(address));
  if (flags == nullptr || pinned == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // With unified addresses everything is mapped.
  *flags = pinned->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

// Attribute 83 says so.
SOFTGPU_EXPORT(cuMemAllocManaged)(CUdeviceptr*, size_t, unsigned) {
  SOFTGPU_CALL(__func__);
  return CUDA_ERROR_NOT_SUPPORTED;
}
