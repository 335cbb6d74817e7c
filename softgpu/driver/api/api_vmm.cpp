// Virtual memory management.
#include <csignal>

#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

// The host has one NUMA node.
bool is_host(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         (location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && location.id == 0);
}

CUresult check(const Machine& m, const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  // Host memory at device addresses: attribute 141 says whether.
  const bool numa = prop->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA && m.model().host_handles;
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !numa) return CUDA_ERROR_NOT_SUPPORTED;
  if (numa ? prop->location.id != 0 : !m.has(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

// How many handles a call changes: its price is for each. With vmm_sync the device is waited for first.
std::uint64_t handles_to_change(Call& call, CUdeviceptr at, std::uint64_t bytes) {
  if (call.m->choice.options.vmm_sync) call.m->scheduler.wait_context(call.lock, nullptr);
  return call.m->addresses.count_in(at, at + bytes);
}

// A handler that takes the fault for one of its own, as this driver's does, may return.
[[noreturn]] void crash(Call& call) {
  call.lock.unlock();
  while (true) std::raise(SIGSEGV);
}

}  // namespace

SOFTGPU_EXPORT(cuMemGetAllocationGranularity)
(size_t* out, const CUmemAllocationProp* prop, CUmemAllocationGranularity_flags option) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr ||
      (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM && option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (const CUresult bad = check(m, prop); bad != CUDA_SUCCESS) return bad;
  *out = granule;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemAddressReserve)
(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr hint, unsigned long long flags) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::reserve);
  ++m.statistics.vmm_calls;
  if (out == nullptr || bytes == 0 || bytes % granule != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((alignment & (alignment - 1)) != 0) return CUDA_ERROR_INVALID_VALUE;
  const auto base = m.addresses.reserve(bytes, alignment, hint);
  if (!base) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = *base;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemAddressFree)(CUdeviceptr base, size_t bytes) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::reserve);
  ++m.statistics.vmm_calls;
  return m.addresses.unreserve(base, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

SOFTGPU_EXPORT(cuMemCreate)
(CUmemGenericAllocationHandle* out, size_t bytes, const CUmemAllocationProp* prop, unsigned long long flags) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::create);
  ++m.statistics.vmm_calls;
  if (out == nullptr || bytes == 0 || bytes % granule != 0 || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const CUresult bad = check(m, prop); bad != CUDA_SUCCESS) return bad;
  CUmemAllocationProp made = *prop;
  if (is_host(prop->location)) {
    const std::optional<HostHandles> asked = m.choice.options.host_handles;
    if (asked == HostHandles::crash) crash(call);
    if (asked == HostHandles::refused) return CUDA_ERROR_NOT_PERMITTED;
    if (asked == HostHandles::misreported)
      made.location = {CU_MEM_LOCATION_TYPE_DEVICE, call.caller().device};
    else
      m.scheduler.now += m.cost.pin(bytes);
  }
  return m.memory.create(call.lock, call.caller(), bytes, made, out);
}

SOFTGPU_EXPORT(cuMemRelease)(CUmemGenericAllocationHandle handle) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::destroy);
  ++m.statistics.vmm_calls;
  return m.memory.release(call.caller(), handle);
}

SOFTGPU_EXPORT(cuMemMap)
(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::map);
  ++m.statistics.vmm_calls;
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  return m.memory.map(call.caller(), at, bytes, offset, handle);
}

SOFTGPU_EXPORT(cuMemUnmap)(CUdeviceptr at, size_t bytes) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::unmap);
  ++m.statistics.vmm_calls;
  m.scheduler.now +=
      m.model().unmap_per_handle * static_cast<Nanoseconds>(handles_to_change(call, at, bytes));
  return m.memory.unmap(call.caller(), at, bytes);
}

SOFTGPU_EXPORT(cuMemSetAccess)
(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* descriptors, size_t count) {
  SOFTGPU_CALL(__func__, needs_driver, &Model::set_access);
  ++m.statistics.vmm_calls;
  if (descriptors == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  m.scheduler.give_access(call.caller().device, handles_to_change(call, at, bytes));
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& d = descriptors[i];
    const bool by_program = m.model().host_handles && is_host(d.location);
    if (d.location.type != CU_MEM_LOCATION_TYPE_DEVICE && !by_program) return CUDA_ERROR_NOT_SUPPORTED;
    if (!by_program && !m.has(d.location.id)) return CUDA_ERROR_INVALID_DEVICE;
    if (d.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE && d.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
        d.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    if (by_program && m.choice.options.host_handles == HostHandles::misreported) continue;
    const std::optional<int> device = by_program ? std::nullopt : std::optional(d.location.id);
    if (const CUresult bad = m.memory.set_access(call.lock, call.caller(), at, bytes, d.flags, device);
        bad != CUDA_SUCCESS)
      return bad;
  }
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemGetAccess)
(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr address) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool by_program = m.model().host_handles && is_host(*location);
  if (!by_program && (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !m.has(location->id)))
    return CUDA_ERROR_INVALID_DEVICE;
  const Object* object = m.addresses.find(address);
  if (object == nullptr || object->kind != ObjectKind::mapping) return CUDA_ERROR_INVALID_VALUE;
  const bool open = !object->on_host || by_program || object->open_to(location->id),
             readable = open && (by_program ? object->host_readable : object->readable),
             writable = open && (by_program ? object->host_writable : object->writable);
  *flags = writable   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : readable ? CU_MEM_ACCESS_FLAGS_PROT_READ
                      : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemGetAllocationPropertiesFromHandle)
(CUmemAllocationProp* prop, CUmemGenericAllocationHandle handle) {
  SOFTGPU_CALL(__func__, needs_driver);
  const Handle* const known = m.memory.find_handle(handle);
  if (prop == nullptr || known == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *prop = known->prop;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemRetainAllocationHandle)(CUmemGenericAllocationHandle* out, void* address) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return m.memory.retain(reinterpret_cast<std::uint64_t>(address), out);
}
