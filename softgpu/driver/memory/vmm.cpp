// Virtual memory management: handles, mappings and access, by the rules that cuda.h documents.
#include <algorithm>

#include "softgpu/driver/memory/memory.h"

namespace softgpu {

CUresult Memory::create(Lock& lock, const Caller& caller, std::uint64_t bytes,
                        const CUmemAllocationProp& prop, CUmemGenericAllocationHandle* out) {
  const bool on_host = prop.location.type != CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_host && !host_.take(bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  PhysicalMemory& memory = on_host ? handle_memory_ : physical_;
  auto claim = this->claim(lock, memory, bytes, prop.location.id, scheduler_.host_clock());
  if (!claim) {
    if (on_host) host_.give(bytes);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  host_waits_for(claim->releases);
  const Access by = scheduler_.host_access(caller.name, caller.call);
  checker_.renew(claim->extents, by, scheduler_.host_clock(), "allocates");
  const CUmemGenericAllocationHandle id = next_handle_++;
  handles_.emplace(id, std::make_shared<Handle>(Handle{id, bytes, claim->extents, prop, &memory}));
  *out = id;
  return CUDA_SUCCESS;
}

const Handle* Memory::find_handle(CUmemGenericAllocationHandle handle) const {
  const auto i = handles_.find(handle);
  return i == handles_.end() || i->second->references == 0 ? nullptr : i->second.get();
}

// Neither handle nor mapping left: the memory is free. Nothing waits, so work that still uses it is a race.
void Memory::drop_if_unused(const std::shared_ptr<Handle>& handle, const Access& by) {
  if (handle->references > 0 || handle->mappings > 0) return;
  checker_.renew(handle->extents, by, scheduler_.host_clock(), "frees the memory");
  handle->memory->release(handle->extents, nullptr);
  if (handle->memory == &handle_memory_) host_.give(handle->bytes);
  handles_.erase(handle->id);
}

CUresult Memory::release(const Caller& caller, CUmemGenericAllocationHandle handle) {
  const auto i = handles_.find(handle);
  if (i == handles_.end() || i->second->references == 0) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Handle> kept = i->second;
  --kept->references;
  drop_if_unused(kept, scheduler_.host_access(caller.name, caller.call));
  return CUDA_SUCCESS;
}

CUresult Memory::map(const Caller&, CUdeviceptr at, std::uint64_t bytes, std::uint64_t offset,
                     CUmemGenericAllocationHandle handle) {
  const auto i = handles_.find(handle);
  if (i == handles_.end() || i->second->references == 0) return CUDA_ERROR_INVALID_VALUE;
  if (offset != 0 || bytes == 0 || bytes % granule != 0 || at % granule != 0 || bytes > i->second->bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (!addresses_.reserved(at, bytes) || addresses_.any_in(at, at + bytes)) return CUDA_ERROR_INVALID_VALUE;
  Object object{ObjectKind::mapping, at, bytes, {}};
  std::uint64_t left = bytes;
  for (const Extent& extent : i->second->extents) {
    const std::uint64_t part = std::min(left, extent.bytes);
    if (part > 0) object.extents.push_back({extent.offset, part});
    left -= part;
  }
  object.readable = object.writable = false;
  object.on_host = i->second->memory == &handle_memory_;
  object.handle = i->second;
  ++i->second->mappings;
  addresses_.add(std::move(object));
  return CUDA_SUCCESS;
}

// The mappings that make up [at, at + bytes) exactly.
bool Memory::whole_mappings(CUdeviceptr at, std::uint64_t bytes, std::vector<Object*>& out) {
  const std::uint64_t end = at + bytes;
  for (std::uint64_t next = at; next < end; next = out.back()->end()) {
    Object* object = addresses_.starts(next);
    if (object == nullptr || object->kind != ObjectKind::mapping || object->end() > end) return false;
    out.push_back(object);
  }
  return !out.empty();
}

CUresult Memory::unmap(const Caller& caller, CUdeviceptr at, std::uint64_t bytes) {
  std::vector<Object*> objects;
  if (!whole_mappings(at, bytes, objects)) return CUDA_ERROR_INVALID_VALUE;
  const Access by = scheduler_.host_access(caller.name, caller.call);
  for (Object* object : objects) {
    checker_.mapping_changes(*object, by, scheduler_.host_clock(), "unmaps");
    if (mapped_to_process() && object->accessible()) unmap_object(*object);
    const std::shared_ptr<Handle> handle = object->handle;
    addresses_.remove(*object, false, by);
    --handle->mappings;
    if (!violations_.sticky()) drop_if_unused(handle, by);
  }
  return CUDA_SUCCESS;
}

CUresult Memory::set_access(Lock& lock, const Caller& caller, CUdeviceptr at, std::uint64_t bytes,
                            CUmemAccess_flags flags, std::optional<int> device) {
  std::vector<Object*> objects;
  if (!whole_mappings(at, bytes, objects)) return CUDA_ERROR_INVALID_VALUE;
  if (!device && !std::all_of(objects.begin(), objects.end(), [](const Object* o) { return o->on_host; }))
    return CUDA_ERROR_NOT_SUPPORTED;
  const bool readable = flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  const bool writable = flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // Tables are made here, where all mappings become known to the device.
  if (device && readable && !overheads_.map(lock, at, bytes, *device)) return CUDA_ERROR_OUT_OF_MEMORY;
  const Access by = scheduler_.host_access(caller.name, caller.call);
  for (Object* object : objects) {
    if (device && object->on_host) {
      object->open_to(*device, readable);
      if (!readable && object->devices != 0) continue;
    }
    bool &may_read = device ? object->readable : object->host_readable,
         &may_write = device ? object->writable : object->host_writable;
    if (may_read == readable && may_write == writable) continue;
    if (device) checker_.mapping_changes(*object, by, scheduler_.host_clock(), "changes access to");
    may_read = readable;
    may_write = writable;
    if (!mapped_to_process()) continue;
    if (!object->accessible()) {
      unmap_object(*object);
    } else if (!map_object(*object->handle->memory, *object)) {
      may_read = may_write = false;
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  return CUDA_SUCCESS;
}

CUresult Memory::retain(CUdeviceptr address, CUmemGenericAllocationHandle* out) {
  const Object* object = addresses_.find(address);
  if (object == nullptr || object->kind != ObjectKind::mapping) return CUDA_ERROR_INVALID_VALUE;
  ++object->handle->references;
  *out = object->handle->id;
  return CUDA_SUCCESS;
}

}  // namespace softgpu
