// Allocation: device, page-locked, stream-ordered, pools, and what a pointer is.
#include <cstring>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

CUdeviceptr* as_address(void** pointer) {
  return reinterpret_cast<CUdeviceptr*>(pointer);
}

// Enters the context too, where there is nothing else to do.
cudaError_t only_enter() {
  return record(enter_context());
}

cudaError_t allocate_async(void** pointer, std::size_t bytes, cudaStream_t stream, Streams streams) {
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  return in_context(&DriverTable::MemAllocAsync, streams, as_address(pointer), bytes, stream);
}

cudaError_t allocate_from_pool(void** pointer, std::size_t bytes, cudaMemPool_t pool, cudaStream_t stream,
                               Streams streams) {
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  return in_context(&DriverTable::MemAllocFromPoolAsync, streams, as_address(pointer), bytes, pool, stream);
}

cudaError_t free_async(void* pointer, cudaStream_t stream, Streams streams) {
  if (!pointer) return only_enter();
  return in_context(&DriverTable::MemFreeAsync, streams, device_address(pointer), stream);
}

cudaError_t device_of(int ordinal, CUdevice& device) {
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return error;
  return call(driver().DeviceGet, &device, ordinal);
}

}  // namespace

SOFTGPU_CUDART cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return only_enter();
  return in_context(&DriverTable::MemAlloc, Streams::legacy, as_address(pointer), bytes);
}

SOFTGPU_CUDART cudaError_t cudaFree(void* pointer) {
  if (!pointer) return only_enter();
  return in_context(&DriverTable::MemFree, Streams::legacy, device_address(pointer));
}

SOFTGPU_CUDART cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                                           std::size_t height) {
  if (!pointer || !pitch) return record(cudaErrorInvalidValue);
  return in_context(&DriverTable::MemAllocPitch, Streams::legacy, as_address(pointer), pitch, width, height,
                    4U);
}

SOFTGPU_CUDART cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned flags) {
  return in_context(&DriverTable::MemAllocManaged, Streams::legacy, as_address(pointer), bytes, flags);
}

SOFTGPU_CUDART cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  return in_context(&DriverTable::MemGetInfo, Streams::legacy, free_bytes, total_bytes);
}

// --- page-locked host memory
// ---------------------------------------------------------------------------------

SOFTGPU_CUDART cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  if (!pointer) return record(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return only_enter();
  return in_context(&DriverTable::MemHostAlloc, Streams::legacy, pointer, bytes, flags);
}

SOFTGPU_CUDART cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocPortable);
}

SOFTGPU_CUDART cudaError_t cudaFreeHost(void* pointer) {
  if (!pointer) return only_enter();
  return in_context(&DriverTable::MemFreeHost, Streams::legacy, pointer);
}

SOFTGPU_CUDART cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned flags) {
  return in_context(&DriverTable::MemHostRegister, Streams::legacy, pointer, bytes, flags);
}

SOFTGPU_CUDART cudaError_t cudaHostUnregister(void* pointer) {
  return in_context(&DriverTable::MemHostUnregister, Streams::legacy, pointer);
}

SOFTGPU_CUDART cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return in_context(&DriverTable::MemHostGetDevicePointer, Streams::legacy, as_address(device), host, flags);
}

SOFTGPU_CUDART cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return in_context(&DriverTable::MemHostGetFlags, Streams::legacy, flags, host);
}

SOFTGPU_CUDART cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (!attributes || !pointer) return record(cudaErrorInvalidValue);
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = cudaInvalidDeviceId;
  CUdeviceptr device = 0;
  void* host = nullptr;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
                                  CU_POINTER_ATTRIBUTE_HOST_POINTER};
  void* values[] = {&type, &managed, &ordinal, &device, &host};
  cudaError_t error = in_context(&DriverTable::PointerGetAttributes, Streams::legacy, 5U,
                                 static_cast<CUpointer_attribute*>(wanted), static_cast<void**>(values),
                                 device_address(pointer));
  if (error != cudaSuccess) return error;
  std::memset(attributes, 0, sizeof *attributes);
  if (type == 0) {  // plain host memory, unknown to the driver
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    attributes->hostPointer = const_cast<void*>(pointer);
    return cudaSuccess;
  }
  attributes->type = managed                      ? cudaMemoryTypeManaged
                     : type == CU_MEMORYTYPE_HOST ? cudaMemoryTypeHost
                                                  : cudaMemoryTypeDevice;
  attributes->device = ordinal;
  attributes->devicePointer = reinterpret_cast<void*>(device);
  attributes->hostPointer = host;
  return cudaSuccess;
}

// --- stream-ordered allocation and pools
// ---------------------------------------------------------------------

SOFTGPU_CUDART cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return allocate_async(pointer, bytes, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMallocAsync_ptsz(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return allocate_async(pointer, bytes, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                                   cudaStream_t stream) {
  return allocate_from_pool(pointer, bytes, pool, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaMallocFromPoolAsync_ptsz(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                                        cudaStream_t stream) {
  return allocate_from_pool(pointer, bytes, pool, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return free_async(pointer, stream, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaFreeAsync_ptsz(void* pointer, cudaStream_t stream) {
  return free_async(pointer, stream, Streams::per_thread);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  CUdevice handle = 0;
  cudaError_t error = device_of(device, handle);
  if (error == cudaSuccess) error = call(driver().DeviceGetDefaultMemPool, pool, handle);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  CUdevice handle = 0;
  cudaError_t error = device_of(device, handle);
  if (error == cudaSuccess) error = call(driver().DeviceGetMemPool, pool, handle);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                                          void* value) {
  CUdevice handle = 0;
  cudaError_t error = device_of(device, handle);
  if (error == cudaSuccess)
    error = call(driver().DeviceGetGraphMemAttribute, handle, static_cast<CUgraphMem_attribute>(attribute),
                 value);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGraphMemTrim(int device) {
  CUdevice handle = 0;
  cudaError_t error = device_of(device, handle);
  if (error == cudaSuccess) error = call(driver().DeviceGraphMemTrim, handle);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
  CUdevice handle = 0;
  cudaError_t error = device_of(device, handle);
  if (error == cudaSuccess) error = call(driver().DeviceSetMemPool, handle, pool);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (!pool || !properties) return record(cudaErrorInvalidValue);
  CUmemPoolProps props{};
  props.allocType = static_cast<CUmemAllocationType>(properties->allocType);
  props.handleTypes = static_cast<CUmemAllocationHandleType>(properties->handleTypes);
  props.location.type = static_cast<CUmemLocationType>(properties->location.type);
  props.location.id = properties->location.id;
  props.win32SecurityAttributes = properties->win32SecurityAttributes;
  props.maxSize = properties->maxSize;
  props.usage = properties->usage;
  return in_context(&DriverTable::MemPoolCreate, Streams::legacy, pool,
                    static_cast<const CUmemPoolProps*>(&props));
}

SOFTGPU_CUDART cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return in_context(&DriverTable::MemPoolDestroy, Streams::legacy, pool);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t keep) {
  return in_context(&DriverTable::MemPoolTrimTo, Streams::legacy, pool, keep);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                   void* value) {
  return in_context(&DriverTable::MemPoolSetAttribute, Streams::legacy, pool,
                    static_cast<CUmemPool_attribute>(attribute), value);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                                   void* value) {
  return in_context(&DriverTable::MemPoolGetAttribute, Streams::legacy, pool,
                    static_cast<CUmemPool_attribute>(attribute), value);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* list,
                                                std::size_t count) {
  static_assert(sizeof(cudaMemAccessDesc) == sizeof(CUmemAccessDesc));
  return in_context(&DriverTable::MemPoolSetAccess, Streams::legacy, pool,
                    reinterpret_cast<const CUmemAccessDesc*>(list), count);
}

SOFTGPU_CUDART cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool,
                                                cudaMemLocation* location) {
  static_assert(sizeof(cudaMemLocation) == sizeof(CUmemLocation));
  return in_context(&DriverTable::MemPoolGetAccess, Streams::legacy,
                    reinterpret_cast<CUmemAccess_flags*>(flags), pool,
                    reinterpret_cast<CUmemLocation*>(location));
}
