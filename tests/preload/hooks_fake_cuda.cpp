// A driver that does nothing but keep books, for tests of the hooks alone: every call that matters prints one
// line to the file in FAKE_LOG. With FAKE_UNNAMED set, cuGetProcAddress answers with functions that it does
// not export, as a driver may.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

void note(const char* format, ...) {
  static FILE* const log = std::getenv("FAKE_LOG") ? std::fopen(std::getenv("FAKE_LOG"), "a") : nullptr;
  if (log == nullptr) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(log, format, arguments);
  va_end(arguments);
  std::fputc('\n', log);
  std::fflush(log);
}

CUcontext const the_context = reinterpret_cast<CUcontext>(0x1000);
thread_local CUcontext current = nullptr;
unsigned long long next_handle = 0x100;
CUdeviceptr next_address = 0x7000000000;

CUdeviceptr serve(const char* name, size_t bytes) {
  note("%s %zu", name, bytes);
  const CUdeviceptr address = next_address;
  next_address += (bytes + 511) / 512 * 512;
  return address;
}

}  // namespace

FAKE CUresult cuInit(unsigned int) {
  note("cuInit");
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetCount(int* count) {
  static const int devices = std::getenv("FAKE_DEVICES") ? std::atoi(std::getenv("FAKE_DEVICES")) : 1;
  return *count = devices, CUDA_SUCCESS;
}
FAKE CUresult cuCtxCreate_v2(CUcontext* context, unsigned, CUdevice) {
  return *context = current = reinterpret_cast<CUcontext>(next_handle++), CUDA_SUCCESS;
}
FAKE CUresult cuCtxGetCurrent(CUcontext* context) {
  note("cuCtxGetCurrent");
  return *context = current, CUDA_SUCCESS;
}
FAKE CUresult cuCtxSetCurrent(CUcontext context) {
  return current = context, CUDA_SUCCESS;
}
FAKE CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  return *context = the_context, CUDA_SUCCESS;
}
FAKE CUresult cuCtxGetDevice(CUdevice* device) {
  static const int number = std::getenv("FAKE_DEVICE") ? std::atoi(std::getenv("FAKE_DEVICE")) : 0;
  return *device = number, current != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
FAKE CUresult cuCtxSynchronize() {
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetName(char* name, int bytes, CUdevice) {
  return std::snprintf(name, bytes, "fake"), CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute, CUdevice) {
  return *value = 0, CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetPCIBusId(char*, int, CUdevice) {
  return CUDA_ERROR_INVALID_DEVICE;
}
FAKE CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice) {
  return *bytes = size_t{1} << 30, CUDA_SUCCESS;
}
FAKE CUresult cuGetErrorName(CUresult, const char** name) {
  return *name = "FAKE_ERROR", CUDA_SUCCESS;
}

// --- virtual memory, streams, events: all of it at once succeeds
FAKE CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                                  unsigned long long) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // Valgrind has no room for an arena. Nobody follows its addresses here: these are no process's.
  if (memory == MAP_FAILED) return *address = CUdeviceptr{1} << 56, CUDA_SUCCESS;
  return *address = reinterpret_cast<CUdeviceptr>(memory), CUDA_SUCCESS;
}
FAKE CUresult cuMemAddressFree(CUdeviceptr, size_t) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes, const CUmemAllocationProp*,
                          unsigned long long) {
  note("cuMemCreate %zu", bytes);
  return *handle = ++next_handle, CUDA_SUCCESS;
}
FAKE CUresult cuMemRelease(CUmemGenericAllocationHandle) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemMap(CUdeviceptr, size_t bytes, size_t, CUmemGenericAllocationHandle, unsigned long long) {
  note("cuMemMap %zu", bytes);
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemSetAccess(CUdeviceptr, size_t, const CUmemAccessDesc* rights, size_t count) {
  std::string devices;
  for (size_t i = 0; i < count; ++i) devices += " " + std::to_string(rights[i].location.id);
  note("cuMemSetAccess%s", devices.c_str());
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc*, size_t) {
  return CUDA_SUCCESS;
}
// Maps that have their address as it is, or, with FAKE_MAPS set, so that nobody sees it.
FAKE CUresult cuTensorMapReplaceAddress(CUtensorMap* map, void* address) {
  map->opaque[1] = reinterpret_cast<cuuint64_t>(address) ^ (std::getenv("FAKE_MAPS") != nullptr ? ~0ULL : 0);
  return CUDA_SUCCESS;
}
FAKE CUresult cuTexObjectCreate(CUtexObject* texture, const CUDA_RESOURCE_DESC*, const CUDA_TEXTURE_DESC*,
                                const CUDA_RESOURCE_VIEW_DESC*) {
  return *texture = 1, CUDA_SUCCESS;
}
FAKE CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle, size_t, CUdeviceptr, size_t,
                                  unsigned long long) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuLaunch(CUfunction) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemUnmap(CUdeviceptr, size_t) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemGetAllocationGranularity(size_t* bytes, const CUmemAllocationProp*,
                                            CUmemAllocationGranularity_flags) {
  return *bytes = size_t{2} << 20, CUDA_SUCCESS;
}
FAKE CUresult cuMemHostAlloc(void** memory, size_t bytes, unsigned int) {
  return *memory = std::malloc(bytes), CUDA_SUCCESS;
}
FAKE CUresult cuMemFreeHost(void* memory) {
  return std::free(memory), CUDA_SUCCESS;
}
FAKE CUresult cuMemHostRegister_v2(void*, size_t, unsigned int) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemHostUnregister(void*) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned int) {
  return *address = serve("cuMemAllocManaged", bytes), CUDA_SUCCESS;
}
FAKE CUresult cuArrayCreate_v2(CUarray* array, const CUDA_ARRAY_DESCRIPTOR*) {
  return *array = reinterpret_cast<CUarray>(++next_handle), CUDA_SUCCESS;
}
FAKE CUresult cuArray3DCreate_v2(CUarray* array, const CUDA_ARRAY3D_DESCRIPTOR* what) {
  return what == nullptr ? CUDA_ERROR_INVALID_VALUE : cuArrayCreate_v2(array, nullptr);
}
FAKE CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr) {
  return *handle = {}, CUDA_SUCCESS;
}
FAKE CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle, unsigned int) {
  return *address = next_address, CUDA_SUCCESS;
}
FAKE CUresult cuCtxEnablePeerAccess(CUcontext, unsigned int) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuStreamCreate(CUstream* stream, unsigned int) {
  return *stream = reinterpret_cast<CUstream>(++next_handle), CUDA_SUCCESS;
}
FAKE CUresult cuStreamDestroy_v2(CUstream) {
  return CUDA_SUCCESS;
}
CUstream captured = nullptr;
FAKE CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = stream == captured && captured != nullptr ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                                                      : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}
FAKE CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  return captured = stream, CUDA_SUCCESS;
}
FAKE CUresult cuStreamEndCapture(CUstream, CUgraph* graph) {
  captured = nullptr;
  return *graph = nullptr, CUDA_SUCCESS;
}
FAKE CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuStreamWaitEvent(CUstream, CUevent, unsigned int) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventCreate(CUevent* event, unsigned int) {
  return *event = reinterpret_cast<CUevent>(++next_handle), CUDA_SUCCESS;
}
FAKE CUresult cuEventDestroy_v2(CUevent) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventElapsedTime(float* milliseconds, CUevent, CUevent) {
  *milliseconds = 0;
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventQuery(CUevent) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventRecord(CUevent, CUstream) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuEventSynchronize(CUevent) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuModuleLoadData(CUmodule*, const void*) {
  return CUDA_ERROR_INVALID_IMAGE;
}
FAKE CUresult cuModuleGetFunction(CUfunction*, CUmodule, const char*) {
  return CUDA_ERROR_NOT_FOUND;
}
FAKE CUresult cuMemsetD32Async(CUdeviceptr, unsigned int, size_t, CUstream) {
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemcpyDtoHAsync_v2(void*, CUdeviceptr, size_t bytes, CUstream) {
  note("cuMemcpyDtoHAsync_v2 %zu", bytes);
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr, const void*, size_t bytes, CUstream) {
  note("cuMemcpyHtoDAsync_v2 %zu", bytes);
  return CUDA_SUCCESS;
}

// --- what the hooks wrap
FAKE CUresult cuMemAlloc(CUdeviceptr_v1* address, unsigned int bytes) {
  return *address = static_cast<CUdeviceptr_v1>(serve("cuMemAlloc", bytes)), CUDA_SUCCESS;
}
// Bytes by address. The pool keeps all that was freed until it is trimmed.
std::map<CUdeviceptr, size_t> plain, in_pool;
size_t live_plain = 0, live_in_pool = 0, kept_by_pool = 0;
FAKE CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  *address = serve("cuMemAlloc_v2", bytes);
  live_plain += plain[*address] = bytes;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                                 unsigned int) {
  *pitch = width;
  return cuMemAlloc_v2(address, width * height);
}
FAKE CUresult cuMemFree_v2(CUdeviceptr address) {
  note("cuMemFree_v2");
  if (const auto found = plain.find(address); found != plain.end()) live_plain -= found->second;
  plain.erase(address);
  return CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice) {
  return *pool = reinterpret_cast<CUmemoryPool>(0x50), CUDA_SUCCESS;
}
FAKE CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice device) {
  return cuDeviceGetDefaultMemPool(pool, device);
}
FAKE CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps*) {
  return *pool = reinterpret_cast<CUmemoryPool>(++next_handle), CUDA_SUCCESS;
}
FAKE CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream) {
  *address = serve("cuMemAllocAsync", bytes);
  in_pool[*address] = bytes;
  live_in_pool += bytes;
  if (live_in_pool > kept_by_pool) kept_by_pool = live_in_pool;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemPoolTrimTo(CUmemoryPool, size_t) {
  note("cuMemPoolTrimTo");
  kept_by_pool = live_in_pool;
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  note("cuMemPoolSetAttribute %llu", static_cast<unsigned long long>(*static_cast<cuuint64_t*>(value)));
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemPoolGetAttribute(CUmemoryPool, CUmemPool_attribute, void* value) {
  return *static_cast<cuuint64_t*>(value) = 0, CUDA_SUCCESS;
}
FAKE CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool, CUstream) {
  return *address = serve("cuMemAllocFromPoolAsync", bytes), CUDA_SUCCESS;
}
FAKE CUresult cuMemFreeAsync(CUdeviceptr address, CUstream) {
  note("cuMemFreeAsync");
  if (const auto found = in_pool.find(address); found != in_pool.end()) live_in_pool -= found->second;
  in_pool.erase(address);
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  note("cuMemGetInfo_v2");
  *total = size_t{1} << 30;
  return *free = *total - live_plain - kept_by_pool, CUDA_SUCCESS;
}
FAKE CUresult cuMemGetAddressRange_v2(CUdeviceptr*, size_t*, CUdeviceptr) {
  return CUDA_ERROR_NOT_FOUND;
}
FAKE CUresult cuMemcpy(CUdeviceptr, CUdeviceptr, size_t bytes) {
  note("cuMemcpy %zu", bytes);
  return CUDA_SUCCESS;
}
FAKE CUresult cuMemcpy_ptds(CUdeviceptr, CUdeviceptr, size_t bytes) {
  note("cuMemcpy_ptds %zu", bytes);
  return CUDA_SUCCESS;
}
FAKE CUresult cuPointerGetAttribute(void*, CUpointer_attribute, CUdeviceptr) {
  note("cuPointerGetAttribute");
  return CUDA_ERROR_INVALID_VALUE;
}
FAKE CUresult cuLaunchKernel(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int, unsigned int,
                             unsigned int, unsigned int, CUstream, void**, void**) {
  note("cuLaunchKernel");
  return CUDA_SUCCESS;
}
// Every kernel of the fake has one int and one struct of three words.
FAKE CUresult cuFuncGetParamInfo(CUfunction, size_t index, size_t* offset, size_t* bytes) {
  if (index > 1) return CUDA_ERROR_INVALID_VALUE;
  *offset = index == 0 ? 0 : 8;
  *bytes = index == 0 ? 4 : 24;
  return CUDA_SUCCESS;
}

// --- look-ups
namespace {

CUresult unnamed_alloc(CUdeviceptr* address, size_t bytes) {
  return cuMemAlloc_v2(address, bytes);
}
CUresult unnamed_old_alloc(CUdeviceptr_v1* address, unsigned int bytes) {
  return cuMemAlloc(address, bytes);
}
CUresult unnamed_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return cuMemcpy(to, from, bytes);
}
CUresult unnamed_thread_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return cuMemcpy_ptds(to, from, bytes);
}

}  // namespace

FAKE CUresult cuGetProcAddress_v2(const char* symbol, void** function, int version, cuuint64_t flags,
                                  CUdriverProcAddressQueryResult* status) {
  const bool unnamed = std::getenv("FAKE_UNNAMED") != nullptr;
  const std::string name = symbol;
  const bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
  *function = nullptr;
  if (name == "cuMemAlloc" && version >= 3020) {
    *function = unnamed ? reinterpret_cast<void*>(&unnamed_alloc) : reinterpret_cast<void*>(&cuMemAlloc_v2);
  } else if (name == "cuMemAlloc") {
    *function = unnamed ? reinterpret_cast<void*>(&unnamed_old_alloc) : reinterpret_cast<void*>(&cuMemAlloc);
  } else if (name == "cuMemcpy" && per_thread) {
    *function =
        unnamed ? reinterpret_cast<void*>(&unnamed_thread_copy) : reinterpret_cast<void*>(&cuMemcpy_ptds);
  } else if (name == "cuMemcpy") {
    *function = unnamed ? reinterpret_cast<void*>(&unnamed_copy) : reinterpret_cast<void*>(&cuMemcpy);
  } else if (name == "cuDeviceGetName") {
    *function = reinterpret_cast<void*>(&cuDeviceGetName);
  } else if (name == "cuGetProcAddress") {
    *function = reinterpret_cast<void*>(&cuGetProcAddress_v2);
  }
  if (status != nullptr) {
    *status = *function != nullptr ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
