// Devices: selection, properties, limits, versions, and the way past the runtime to the driver.
#include <cstring>

#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

using namespace softgpu::cudart;

namespace {

struct IntProperty {
  int cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr IntProperty int_properties[] = {
    {&cudaDeviceProp::regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {&cudaDeviceProp::warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {&cudaDeviceProp::maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {&cudaDeviceProp::major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
    {&cudaDeviceProp::minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
    {&cudaDeviceProp::multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {&cudaDeviceProp::integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED},
    {&cudaDeviceProp::canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY},
    {&cudaDeviceProp::concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS},
    {&cudaDeviceProp::ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED},
    {&cudaDeviceProp::pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID},
    {&cudaDeviceProp::pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID},
    {&cudaDeviceProp::pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID},
    {&cudaDeviceProp::asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT},
    {&cudaDeviceProp::unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
    {&cudaDeviceProp::memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH},
    {&cudaDeviceProp::l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
    {&cudaDeviceProp::maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED},
    {&cudaDeviceProp::regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY},
    {&cudaDeviceProp::pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS},
    {&cudaDeviceProp::concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS},
    {&cudaDeviceProp::canUseHostPointerForRegisteredMem,
     CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    {&cudaDeviceProp::cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH},
    {&cudaDeviceProp::maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED},
    {&cudaDeviceProp::memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED},
    {&cudaDeviceProp::hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID},
};

struct SizeProperty {
  std::size_t cudaDeviceProp::*field;
  CUdevice_attribute attribute;
};

constexpr SizeProperty size_properties[] = {
    {&cudaDeviceProp::sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {&cudaDeviceProp::memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH},
    {&cudaDeviceProp::totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY},
    {&cudaDeviceProp::textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT},
    {&cudaDeviceProp::texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT},
    {&cudaDeviceProp::sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR},
    {&cudaDeviceProp::sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN},
};

// An attribute that the driver does not know counts as 0.
int attribute_or_zero(CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return call(driver().DeviceGetAttribute, &value, attribute, device) == cudaSuccess ? value : 0;
}

cudaError_t device_handle(int ordinal, CUdevice& device) {
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return error;
  return call(driver().DeviceGet, &device, ordinal);
}

cudaError_t fill_properties(cudaDeviceProp& p, int ordinal) {
  std::memset(&p, 0, sizeof p);
  CUdevice device = 0;
  if (cudaError_t error = device_handle(ordinal, device); error != cudaSuccess) return error;
  if (cudaError_t error = call(driver().DeviceGetName, p.name, static_cast<int>(sizeof p.name), device);
      error != cudaSuccess) {
    return error;
  }
  if (cudaError_t error = call(driver().DeviceTotalMem, &p.totalGlobalMem, device); error != cudaSuccess) {
    return error;
  }
  CUuuid uuid{};
  if (call(driver().DeviceGetUuid, &uuid, device) == cudaSuccess) std::memcpy(&p.uuid, &uuid, sizeof uuid);
  for (const IntProperty& property : int_properties) {
    p.*property.field = attribute_or_zero(device, property.attribute);
  }
  for (const SizeProperty& property : size_properties) {
    p.*property.field = static_cast<std::size_t>(attribute_or_zero(device, property.attribute));
  }
  for (int axis = 0; axis < 3; ++axis) {
    p.maxThreadsDim[axis] = attribute_or_zero(
        device, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + axis));
    p.maxGridSize[axis] =
        attribute_or_zero(device, static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + axis));
  }
  return cudaSuccess;
}

cudaError_t entry_point(const char* symbol, void** function, unsigned version, unsigned long long flags,
                        cudaDriverEntryPointQueryResult* status, Streams streams) {
  if (!symbol || !function) return cudaErrorInvalidValue;
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return error;
  if (flags == cudaEnableDefault) {
    flags = streams == Streams::legacy ? cudaEnableLegacyStream : cudaEnablePerThreadDefaultStream;
  }
  *function = nullptr;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result =
      driver().get_proc_address(symbol, function, static_cast<int>(version), flags, &found);
  if (status) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  // A name that is not there is an answer, not an error, for those who ask for the status.
  if (result == CUDA_ERROR_NOT_FOUND && status) return cudaSuccess;
  return to_error(result);
}

}  // namespace

SOFTGPU_CUDART cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return record(cudaErrorInvalidValue);
  *count = 0;
  cudaError_t error = enter_driver();
  if (error == cudaSuccess) error = call(driver().DeviceGetCount, count);
  if (error == cudaSuccess && *count == 0) error = cudaErrorNoDevice;
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaGetDevice(int* device) {
  if (!device) return record(cudaErrorInvalidValue);
  if (cudaError_t error = enter_driver(); error != cudaSuccess) return record(error);
  *device = current_device();
  return cudaSuccess;
}

SOFTGPU_CUDART cudaError_t cudaSetDevice(int device) {
  return record(set_current_device(device));
}

SOFTGPU_CUDART cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  CUdevice handle = 0;
  CUcontext context = nullptr;
  cudaError_t error = device_handle(device, handle);
  if (error == cudaSuccess) error = call(driver().DevicePrimaryCtxRetain, &context, handle);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!properties) return record(cudaErrorInvalidValue);
  return record(fill_properties(*properties, device));
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  CUdevice handle = 0;
  cudaError_t error = device_handle(device, handle);
  if (error == cudaSuccess) {
    error = call(driver().DeviceGetAttribute, value, static_cast<CUdevice_attribute>(attribute), handle);
  }
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  CUdevice handle = 0;
  cudaError_t error = device_handle(device, handle);
  if (error == cudaSuccess) error = call(driver().DeviceGetPCIBusId, text, bytes, handle);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  CUdevice first = 0;
  CUdevice second = 0;
  cudaError_t error = device_handle(device, first);
  if (error == cudaSuccess) error = device_handle(peer, second);
  if (error == cudaSuccess) error = call(driver().DeviceCanAccessPeer, can, first, second);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return in_context(&DriverTable::CtxGetLimit, Streams::legacy, value, static_cast<CUlimit>(limit));
}

SOFTGPU_CUDART cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return in_context(&DriverTable::CtxSetLimit, Streams::legacy, static_cast<CUlimit>(limit), value);
}

SOFTGPU_CUDART cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return in_context(&DriverTable::CtxGetStreamPriorityRange, Streams::legacy, least, greatest);
}

SOFTGPU_CUDART cudaError_t cudaDeviceSynchronize() {
  return in_context(&DriverTable::CtxSynchronize, Streams::legacy);
}

SOFTGPU_CUDART cudaError_t cudaDeviceReset() {
  CUdevice handle = 0;
  cudaError_t error = device_handle(current_device(), handle);
  if (error == cudaSuccess) error = call(driver().DevicePrimaryCtxReset, handle);
  if (error == cudaSuccess) error = call(driver().CtxSetCurrent, static_cast<CUcontext>(nullptr));
  forget_contexts();
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  CUdevice handle = 0;
  int active = 0;
  cudaError_t error = device_handle(current_device(), handle);
  if (error == cudaSuccess) error = call(driver().DevicePrimaryCtxGetState, handle, flags, &active);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaSetDeviceFlags(unsigned flags) {
  CUdevice handle = 0;
  cudaError_t error = device_handle(current_device(), handle);
  if (error == cudaSuccess) error = call(driver().DevicePrimaryCtxSetFlags, handle, flags);
  return record(error);
}

SOFTGPU_CUDART cudaError_t cudaDriverGetVersion(int* version) {
  if (!version) return record(cudaErrorInvalidValue);
  *version = 0;  // and success: so a program finds out that there is no driver
  return driver_found() ? record(call(driver().DriverGetVersion, version)) : cudaSuccess;
}

SOFTGPU_CUDART cudaError_t cudaRuntimeGetVersion(int* version) {
  if (!version) return record(cudaErrorInvalidValue);
  *version = CUDART_VERSION;
  return cudaSuccess;
}

SOFTGPU_CUDART cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function,
                                                   unsigned long long flags,
                                                   cudaDriverEntryPointQueryResult* status) {
  return record(entry_point(symbol, function, CUDART_VERSION, flags, status, Streams::legacy));
}
SOFTGPU_CUDART cudaError_t cudaGetDriverEntryPoint_ptsz(const char* symbol, void** function,
                                                        unsigned long long flags,
                                                        cudaDriverEntryPointQueryResult* status) {
  return record(entry_point(symbol, function, CUDART_VERSION, flags, status, Streams::per_thread));
}
SOFTGPU_CUDART cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                            unsigned version, unsigned long long flags,
                                                            cudaDriverEntryPointQueryResult* status) {
  return record(entry_point(symbol, function, version, flags, status, Streams::legacy));
}
SOFTGPU_CUDART cudaError_t cudaGetDriverEntryPointByVersion_ptsz(const char* symbol, void** function,
                                                                 unsigned version, unsigned long long flags,
                                                                 cudaDriverEntryPointQueryResult* status) {
  return record(entry_point(symbol, function, version, flags, status, Streams::per_thread));
}

SOFTGPU_CUDART cudaError_t cudaProfilerStart() {
  return in_context(&DriverTable::ProfilerStart, Streams::legacy);
}
SOFTGPU_CUDART cudaError_t cudaProfilerStop() {
  return in_context(&DriverTable::ProfilerStop, Streams::legacy);
}
