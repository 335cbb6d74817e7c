// The driver as the runtime sees it: one table of function pointers per meaning of stream 0, filled through
// cuGetProcAddress_v2 at the first use and never looked up again. libcuda is never linked.
#pragma once

#include <cuda.h>
#include <cudaProfiler.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace softgpu::cudart {

// What the stream handle 0 means to a caller.
enum class Streams : std::uint8_t { legacy, per_thread };

// Base names without "cu"; the ABI that CUDA 13.0 gives them is chosen by cuda.h.
#define SOFTGPU_DRIVER_FUNCTIONS(X)                     \
  X(Init)                                               \
  X(DriverGetVersion)                                   \
  X(DeviceGet)                                          \
  X(DeviceGetCount)                                     \
  X(DeviceGetName)                                      \
  X(DeviceGetUuid)                                      \
  X(DeviceTotalMem)                                     \
  X(DeviceGetAttribute)                                 \
  X(DeviceGetPCIBusId)                                  \
  X(DeviceCanAccessPeer)                                \
  X(DevicePrimaryCtxRetain)                             \
  X(DevicePrimaryCtxReset)                              \
  X(DevicePrimaryCtxSetFlags)                           \
  X(DevicePrimaryCtxGetState)                           \
  X(CtxGetCurrent)                                      \
  X(CtxGetDevice)                                       \
  X(CtxSetCurrent)                                      \
  X(CtxSynchronize)                                     \
  X(CtxGetLimit)                                        \
  X(CtxSetLimit)                                        \
  X(CtxGetStreamPriorityRange)                          \
  X(MemAlloc)                                           \
  X(MemAllocPitch)                                      \
  X(MemAllocManaged)                                    \
  X(MemFree)                                            \
  X(MemHostAlloc)                                       \
  X(MemFreeHost)                                        \
  X(MemHostRegister)                                    \
  X(MemHostUnregister)                                  \
  X(MemHostGetDevicePointer)                            \
  X(MemHostGetFlags)                                    \
  X(MemGetInfo)                                         \
  X(PointerGetAttributes)                               \
  X(StreamCreate)                                       \
  X(StreamCreateWithPriority)                           \
  X(StreamDestroy)                                      \
  X(EventCreate)                                        \
  X(EventDestroy)                                       \
  X(EventQuery)                                         \
  X(EventSynchronize)                                   \
  X(EventElapsedTime)                                   \
  X(DeviceGetDefaultMemPool)                            \
  X(DeviceGetMemPool)                                   \
  X(DeviceGetGraphMemAttribute)                         \
  X(DeviceGraphMemTrim)                                 \
  X(DeviceSetMemPool)                                   \
  X(MemPoolCreate)                                      \
  X(MemPoolDestroy)                                     \
  X(MemPoolTrimTo)                                      \
  X(MemPoolSetAttribute)                                \
  X(MemPoolGetAttribute)                                \
  X(MemPoolSetAccess)                                   \
  X(MemPoolGetAccess)                                   \
  X(LibraryLoadData)                                    \
  X(LibraryUnload)                                      \
  X(LibraryGetKernel)                                   \
  X(FuncGetAttribute)                                   \
  X(FuncSetAttribute)                                   \
  X(OccupancyMaxActiveBlocksPerMultiprocessorWithFlags) \
  X(ThreadExchangeStreamCaptureMode)                    \
  X(ProfilerStart)                                      \
  X(ProfilerStop)                                       \
  X(GraphCreate)                                        \
  X(GraphClone)                                         \
  X(GraphDestroy)                                       \
  X(GraphGetNodes)                                      \
  X(GraphInstantiateWithFlags)                          \
  X(GraphExecUpdate)                                    \
  X(GraphExecDestroy)

// Those with a per-thread twin (_ptds, _ptsz).
#define SOFTGPU_DRIVER_STREAM_FUNCTIONS(X) \
  X(Memcpy)                                \
  X(MemcpyHtoD)                            \
  X(MemcpyDtoH)                            \
  X(MemcpyDtoD)                            \
  X(MemcpyAsync)                           \
  X(MemcpyHtoDAsync)                       \
  X(MemcpyDtoHAsync)                       \
  X(MemcpyDtoDAsync)                       \
  X(Memcpy2DUnaligned)                     \
  X(Memcpy2DAsync)                         \
  X(MemsetD8)                              \
  X(MemsetD8Async)                         \
  X(MemsetD2D8)                            \
  X(MemsetD2D8Async)                       \
  X(MemAllocAsync)                         \
  X(MemAllocFromPoolAsync)                 \
  X(MemFreeAsync)                          \
  X(StreamQuery)                           \
  X(StreamSynchronize)                     \
  X(StreamWaitEvent)                       \
  X(StreamAddCallback)                     \
  X(StreamGetFlags)                        \
  X(StreamGetPriority)                     \
  X(StreamGetId)                           \
  X(StreamIsCapturing)                     \
  X(EventRecord)                           \
  X(EventRecordWithFlags)                  \
  X(LaunchHostFunc)                        \
  X(StreamGetCaptureInfo)                  \
  X(StreamBeginCapture)                    \
  X(StreamEndCapture)                      \
  X(GraphLaunch)                           \
  X(GraphUpload)                           \
  X(LaunchKernel)                          \
  X(LaunchKernelEx)                        \
  X(LaunchCooperativeKernel)

struct DriverTable {
#define SOFTGPU_SLOT(name) decltype(&cu##name) name = nullptr;
  SOFTGPU_DRIVER_FUNCTIONS(SOFTGPU_SLOT)
  SOFTGPU_DRIVER_STREAM_FUNCTIONS(SOFTGPU_SLOT)
#undef SOFTGPU_SLOT
  decltype(&cuGetProcAddress_v2) get_proc_address = nullptr;
};

// The table; all slots are null where there is no driver. A function that the driver lacks is a null slot.
const DriverTable& driver(Streams streams = Streams::legacy);
// False where libcuda.so.1 or its cuGetProcAddress_v2 is missing.
bool driver_found();

// Runtime errors above 9 carry the driver's numbers.
constexpr cudaError_t to_error(CUresult result) {
  return static_cast<cudaError_t>(result);
}

// Loads and initialises the driver.
cudaError_t enter_driver();
// The same, and makes the calling thread's device's primary context current where no context is.
cudaError_t enter_context();

// The device that cudaSetDevice chose in this thread.
int current_device();
// Chooses it and makes its primary context current.
cudaError_t set_current_device(int device);
// Forgets all contexts, after a reset of a device's primary context.
void forget_contexts();

// Notes an error for cudaGetLastError and returns it.
cudaError_t record(cudaError_t error);

// Tells a profiler that listens to the driver that this thread is inside a call of the runtime.
class RuntimeCall {
 public:
  RuntimeCall();
  ~RuntimeCall();
  RuntimeCall(const RuntimeCall&) = delete;
  RuntimeCall& operator=(const RuntimeCall&) = delete;
};

// Calls through a slot.
template <class... Parameters, class... Args>
cudaError_t call(CUresult (*function)(Parameters...), Args... args) {
  if (!function) return cudaErrorCallRequiresNewerDriver;
  return to_error(function(args...));
}

// The body of most runtime functions: a current context, the driver's function, the error noted.
template <class... Parameters, class... Args>
cudaError_t in_context(CUresult (*DriverTable::*slot)(Parameters...), Streams streams, Args... args) {
  cudaError_t error = enter_context();
  const RuntimeCall known;
  if (error == cudaSuccess) error = call(driver(streams).*slot, args...);
  return record(error);
}

inline CUdeviceptr device_address(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace softgpu::cudart
