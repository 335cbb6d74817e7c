// Stream-ordered allocation and its pools.
#include "softgpu/driver/api/api.h"

using namespace softgpu;

namespace {

CUmemoryPool handle(Pool* pool) {
  return reinterpret_cast<CUmemoryPool>(pool);
}

CUresult allocate(const char* name, bool per_thread, CUdeviceptr* out, std::size_t bytes, Pool* pool,
                  CUstream in) {
  SOFTGPU_CALL(name, needs_context, &Model::pool);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (pool == nullptr) pool = m.memory.current_pool(call.context->device);
  return m.memory.allocate_async(call.lock, call.caller(), bytes, *pool, stream, out);
}

CUresult allocate_from(const char* name, bool per_thread, CUdeviceptr* out, std::size_t bytes,
                       CUmemoryPool which, CUstream in) {
  Pool* pool = nullptr;
  {
    SOFTGPU_CALL(name);
    pool = m.memory.find_pool(which);
    if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  return allocate(name, per_thread, out, bytes, pool, in);
}

CUresult free(const char* name, bool per_thread, CUdeviceptr address, CUstream in) {
  SOFTGPU_CALL(name, needs_context, &Model::pool);
  const StreamPtr stream = m.stream(in, per_thread, call.context);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return m.memory.free_async(call.lock, call.caller(), address, stream);
}

CUresult attribute(Pool& pool, CUmemPool_attribute which, void* value, bool write) {
  const auto number = [&](int& held) {
    if (write) {
      held = *static_cast<int*>(value);
    } else {
      *static_cast<int*>(value) = held;
    }
    return CUDA_SUCCESS;
  };
  auto* const wide = static_cast<cuuint64_t*>(value);
  // High-water marks can be set to zero alone, which makes them the current value.
  const auto mark = [&](std::uint64_t& high, std::uint64_t current) {
    if (!write) {
      *wide = high;
    } else if (*wide != 0) {
      return CUDA_ERROR_INVALID_VALUE;
    } else {
      high = current;
    }
    return CUDA_SUCCESS;
  };
  switch (which) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
      return number(pool.reuse_event);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
      return number(pool.reuse_opportunistic);
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      return number(pool.reuse_internal);
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      if (write) {
        pool.release_threshold = *wide;
      } else {
        *wide = pool.release_threshold;
      }
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      if (write) return CUDA_ERROR_INVALID_VALUE;
      *wide = which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ? pool.used : pool.reserved;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return mark(pool.reserved_high, pool.reserved);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return mark(pool.used_high, pool.used);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult pool_of(const char* name, CUmemoryPool* out, CUdevice device, bool current) {
  SOFTGPU_CALL(name, needs_driver);
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle(current ? m.memory.current_pool(device) : &m.memory.default_pool(device));
  return CUDA_SUCCESS;
}

CUresult pool_at(const char* name, CUmemoryPool* out, const CUmemLocation* location, CUmemAllocationType type,
                 bool current) {
  if (location == nullptr || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  return pool_of(name, out, location->id, current);
}

}  // namespace

SOFTGPU_EXPORT(cuMemAllocAsync)(CUdeviceptr* out, size_t bytes, CUstream s) {
  return allocate(__func__, false, out, bytes, nullptr, s);
}
SOFTGPU_EXPORT(cuMemAllocAsync_ptsz)(CUdeviceptr* out, size_t bytes, CUstream s) {
  return allocate(__func__, true, out, bytes, nullptr, s);
}
SOFTGPU_EXPORT(cuMemAllocFromPoolAsync)(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream s) {
  return allocate_from(__func__, false, out, bytes, pool, s);
}
SOFTGPU_EXPORT(cuMemAllocFromPoolAsync_ptsz)(CUdeviceptr* out, size_t bytes, CUmemoryPool pool, CUstream s) {
  return allocate_from(__func__, true, out, bytes, pool, s);
}
SOFTGPU_EXPORT(cuMemFreeAsync)(CUdeviceptr address, CUstream s) {
  return free(__func__, false, address, s);
}
SOFTGPU_EXPORT(cuMemFreeAsync_ptsz)(CUdeviceptr address, CUstream s) {
  return free(__func__, true, address, s);
}

// Graphs allocate nothing here.
SOFTGPU_EXPORT(cuDeviceGetGraphMemAttribute)
(CUdevice device, CUgraphMem_attribute attribute, void* value) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr || attribute < 0 || attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH)
    return CUDA_ERROR_INVALID_VALUE;
  const Memory::GraphBytes& bytes = m.memory.graph_bytes(device);
  const bool high =
      attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH || attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  *static_cast<cuuint64_t*>(value) = high ? bytes.high : bytes.now;
  return CUDA_SUCCESS;
}
SOFTGPU_EXPORT(cuDeviceGraphMemTrim)(CUdevice device) {
  SOFTGPU_CALL(__func__, needs_driver);
  return m.has(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

SOFTGPU_EXPORT(cuDeviceGetDefaultMemPool)(CUmemoryPool* out, CUdevice device) {
  return pool_of(__func__, out, device, false);
}
SOFTGPU_EXPORT(cuDeviceGetMemPool)(CUmemoryPool* out, CUdevice device) {
  return pool_of(__func__, out, device, true);
}
SOFTGPU_EXPORT(cuMemGetDefaultMemPool)(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return pool_at(__func__, out, location, type, false);
}
SOFTGPU_EXPORT(cuMemGetMemPool)(CUmemoryPool* out, CUmemLocation* location, CUmemAllocationType type) {
  return pool_at(__func__, out, location, type, true);
}

SOFTGPU_EXPORT(cuDeviceSetMemPool)(CUdevice device, CUmemoryPool which) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (!m.has(device)) return CUDA_ERROR_INVALID_DEVICE;
  Pool* const pool = m.memory.find_pool(which);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pool->device() != device) return CUDA_ERROR_INVALID_VALUE;
  m.memory.current_pool(device) = pool;
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemPoolCreate)(CUmemoryPool* out, const CUmemPoolProps* props) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (out == nullptr || props == nullptr || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
  if (!m.has(props->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  *out = handle(m.memory.create_pool(*props));
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemPoolDestroy)(CUmemoryPool which) {
  SOFTGPU_CALL(__func__, needs_driver);
  Pool* const pool = m.memory.find_pool(which);
  return pool == nullptr ? CUDA_ERROR_INVALID_VALUE : m.memory.destroy_pool(*pool);
}

SOFTGPU_EXPORT(cuMemPoolTrimTo)(CUmemoryPool which, size_t) {
  SOFTGPU_CALL(__func__, needs_driver);
  // Nothing is kept beyond what lives.
  return m.memory.find_pool(which) == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemPoolGetAttribute)(CUmemoryPool which, CUmemPool_attribute key, void* value) {
  SOFTGPU_CALL(__func__, needs_driver);
  Pool* const pool = m.memory.find_pool(which);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute(*pool, key, value, false);
}

SOFTGPU_EXPORT(cuMemPoolSetAttribute)(CUmemoryPool which, CUmemPool_attribute key, void* value) {
  SOFTGPU_CALL(__func__, needs_driver);
  Pool* const pool = m.memory.find_pool(which);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute(*pool, key, value, true);
}

SOFTGPU_EXPORT(cuMemPoolSetAccess)(CUmemoryPool which, const CUmemAccessDesc* descriptors, size_t count) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (m.memory.find_pool(which) == nullptr || descriptors == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    if (descriptors[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE || !m.has(descriptors[i].location.id)) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    // The device that owns the memory cannot be shut out.
    if (descriptors[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

SOFTGPU_EXPORT(cuMemPoolGetAccess)(CUmemAccess_flags* flags, CUmemoryPool which, CUmemLocation* location) {
  SOFTGPU_CALL(__func__, needs_driver);
  if (flags == nullptr || location == nullptr || m.memory.find_pool(which) == nullptr)
    return CUDA_ERROR_INVALID_VALUE;
  if (location->type != CU_MEM_LOCATION_TYPE_DEVICE || !m.has(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return CUDA_SUCCESS;
}
