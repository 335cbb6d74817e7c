// The driver's functions that pooch calls itself, and how it calls them. For the parts of RealDevice.
#pragma once

#include <cuda.h>

#include <utility>

#include "core/device.h"
#include "interpose/hooks/captures.h"

// The driver's functions by exact exported name: a bare name means its oldest ABI, which for these has not
// changed.
#define POOCH_DRIVER_FUNCTIONS(X)      \
  X(cuCtxGetDevice)                    \
  X(cuCtxSynchronize)                  \
  X(cuDeviceGetAttribute)              \
  X(cuDeviceGetCount)                  \
  X(cuDeviceGetName)                   \
  X(cuDeviceGetPCIBusId)               \
  X(cuDeviceTotalMem_v2)               \
  X(cuGetErrorName)                    \
  X(cuMemAddressFree)                  \
  X(cuMemAddressReserve)               \
  X(cuMemCreate)                       \
  X(cuMemFreeHost)                     \
  X(cuMemGetInfo_v2)                   \
  X(cuMemGetAllocationGranularity)     \
  X(cuMemHostAlloc)                    \
  X(cuMemHostRegister_v2)              \
  X(cuMemHostUnregister)               \
  X(cuMemMap)                          \
  X(cuMemRelease)                      \
  X(cuMemSetAccess)                    \
  X(cuMemUnmap)                        \
  X(cuMemcpyDtoHAsync_v2)              \
  X(cuMemcpyHtoDAsync_v2)              \
  X(cuStreamCreate)                    \
  X(cuStreamDestroy_v2)                \
  X(cuStreamIsCapturing)               \
  X(cuStreamWaitEvent)                 \
  X(cuThreadExchangeStreamCaptureMode) \
  X(cuEventCreate)                     \
  X(cuEventDestroy_v2)                 \
  X(cuEventElapsedTime)                \
  X(cuEventQuery)                      \
  X(cuEventRecord)                     \
  X(cuEventSynchronize)                \
  X(cuLaunchKernel)                    \
  X(cuMemsetD32Async)                  \
  X(cuModuleGetFunction)               \
  X(cuModuleLoadData)

namespace pooch::interpose {

struct DriverTable {
#define POOCH_MEMBER(function) decltype(&::function) function = nullptr;  // NOLINT: names take no parentheses
  POOCH_DRIVER_FUNCTIONS(POOCH_MEMBER)
#undef POOCH_MEMBER
};

// While some stream is captured, a thread may not call what might wait for the device unless it says that it
// knows better. What this one does concerns streams that are not captured. Where it cannot say so it does not
// call: that would spoil the capture.
template <class Function>
CUresult beside_captures(const DriverTable& driver, const Function& function) {
  if (!any_capture()) return function();
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (const CUresult said = driver.cuThreadExchangeStreamCaptureMode(&mode); said != CUDA_SUCCESS)
    return said;
  const CUresult status = function();
  (void)driver.cuThreadExchangeStreamCaptureMode(&mode);
  return status;
}

inline CUstream vendor(StreamHandle stream) {
  return reinterpret_cast<CUstream>(stream);
}
inline CUevent vendor(EventHandle event) {
  return reinterpret_cast<CUevent>(event);
}

// What the driver refused may succeed a moment later, and asking twice does no harm: a refused call did
// nothing, and each of ours leaves the same behind when it is done twice. Errors of the context, which stay,
// and of arguments, which do not change, are not asked about again.
template <class Ask>
CUresult ask_twice(Ask&& ask) {
  const CUresult status = ask();
  const bool passing = status == CUDA_ERROR_UNKNOWN || status == CUDA_ERROR_OPERATING_SYSTEM ||
                       status == CUDA_ERROR_OUT_OF_MEMORY;
  return passing ? ask() : status;
}

// Calls a function of the table and turns its status into ours.
#define POOCH_CALL(function, ...)                                                                           \
  check(                                                                                                    \
      ask_twice([&] { return beside_captures(*driver_, [&] { return driver_->function(__VA_ARGS__); }); }), \
      #function)

}  // namespace pooch::interpose
