// Errors: names, texts, and the last error of each thread.
#include "softgpu/cudart/driver.h"
#include "softgpu/cudart/export.h"

namespace softgpu::cudart {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char* text;
};

// The errors that programs meet; others are described by their names.
constexpr ErrorText texts[] = {
    {cudaSuccess, "no error"},
    {cudaErrorInvalidValue, "invalid argument"},
    {cudaErrorMemoryAllocation, "out of memory"},
    {cudaErrorInitializationError, "initialization error"},
    {cudaErrorCudartUnloading, "driver shutting down"},
    {cudaErrorInvalidConfiguration, "invalid configuration argument"},
    {cudaErrorInvalidPitchValue, "invalid pitch argument"},
    {cudaErrorInvalidSymbol, "invalid device symbol"},
    {cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"},
    {cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorCallRequiresNewerDriver, "API call is not supported in the installed CUDA driver"},
    {cudaErrorMissingConfiguration, "__global__ function call is not configured"},
    {cudaErrorInvalidDeviceFunction, "invalid device function"},
    {cudaErrorNoDevice, "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "invalid device ordinal"},
    {cudaErrorInvalidKernelImage, "device kernel image is invalid"},
    {cudaErrorDeviceUninitialized, "invalid device context"},
    {cudaErrorAlreadyMapped, "resource already mapped"},
    {cudaErrorNotMapped, "resource not mapped"},
    {cudaErrorInvalidResourceHandle, "invalid resource handle"},
    {cudaErrorIllegalState, "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "named symbol not found"},
    {cudaErrorNotReady, "device not ready"},
    {cudaErrorIllegalAddress, "an illegal memory access was encountered"},
    {cudaErrorLaunchOutOfResources, "too many resources requested for launch"},
    {cudaErrorSetOnActiveProcess, "cannot set while device is active in this process"},
    {cudaErrorContextIsDestroyed, "context is destroyed"},
    {cudaErrorHostMemoryAlreadyRegistered, "part or all of the requested memory range is already mapped"},
    {cudaErrorHostMemoryNotRegistered, "pointer does not correspond to a registered memory region"},
    {cudaErrorLaunchFailure, "unspecified launch failure"},
    {cudaErrorNotPermitted, "operation not permitted"},
    {cudaErrorNotSupported, "operation not supported"},
    {cudaErrorUnknown, "unknown error"},
};

const char* name_of(cudaError_t error) {
  switch (error) {
#define SOFTGPU_NAME(name) \
  case name:               \
    return #name;
    SOFTGPU_NAME(cudaSuccess)
    SOFTGPU_NAME(cudaErrorInvalidValue)
    SOFTGPU_NAME(cudaErrorMemoryAllocation)
    SOFTGPU_NAME(cudaErrorInitializationError)
    SOFTGPU_NAME(cudaErrorCudartUnloading)
    SOFTGPU_NAME(cudaErrorProfilerDisabled)
    SOFTGPU_NAME(cudaErrorProfilerNotInitialized)
    SOFTGPU_NAME(cudaErrorProfilerAlreadyStarted)
    SOFTGPU_NAME(cudaErrorProfilerAlreadyStopped)
    SOFTGPU_NAME(cudaErrorInvalidConfiguration)
    SOFTGPU_NAME(cudaErrorInvalidPitchValue)
    SOFTGPU_NAME(cudaErrorInvalidSymbol)
    SOFTGPU_NAME(cudaErrorInvalidHostPointer)
    SOFTGPU_NAME(cudaErrorInvalidDevicePointer)
    SOFTGPU_NAME(cudaErrorInvalidTexture)
    SOFTGPU_NAME(cudaErrorInvalidTextureBinding)
    SOFTGPU_NAME(cudaErrorInvalidChannelDescriptor)
    SOFTGPU_NAME(cudaErrorInvalidMemcpyDirection)
    SOFTGPU_NAME(cudaErrorAddressOfConstant)
    SOFTGPU_NAME(cudaErrorTextureFetchFailed)
    SOFTGPU_NAME(cudaErrorTextureNotBound)
    SOFTGPU_NAME(cudaErrorSynchronizationError)
    SOFTGPU_NAME(cudaErrorInvalidFilterSetting)
    SOFTGPU_NAME(cudaErrorInvalidNormSetting)
    SOFTGPU_NAME(cudaErrorMixedDeviceExecution)
    SOFTGPU_NAME(cudaErrorNotYetImplemented)
    SOFTGPU_NAME(cudaErrorMemoryValueTooLarge)
    SOFTGPU_NAME(cudaErrorStubLibrary)
    SOFTGPU_NAME(cudaErrorInsufficientDriver)
    SOFTGPU_NAME(cudaErrorCallRequiresNewerDriver)
    SOFTGPU_NAME(cudaErrorInvalidSurface)
    SOFTGPU_NAME(cudaErrorDuplicateVariableName)
    SOFTGPU_NAME(cudaErrorDuplicateTextureName)
    SOFTGPU_NAME(cudaErrorDuplicateSurfaceName)
    SOFTGPU_NAME(cudaErrorDevicesUnavailable)
    SOFTGPU_NAME(cudaErrorIncompatibleDriverContext)
    SOFTGPU_NAME(cudaErrorMissingConfiguration)
    SOFTGPU_NAME(cudaErrorPriorLaunchFailure)
    SOFTGPU_NAME(cudaErrorLaunchMaxDepthExceeded)
    SOFTGPU_NAME(cudaErrorLaunchFileScopedTex)
    SOFTGPU_NAME(cudaErrorLaunchFileScopedSurf)
    SOFTGPU_NAME(cudaErrorSyncDepthExceeded)
    SOFTGPU_NAME(cudaErrorLaunchPendingCountExceeded)
    SOFTGPU_NAME(cudaErrorInvalidDeviceFunction)
    SOFTGPU_NAME(cudaErrorNoDevice)
    SOFTGPU_NAME(cudaErrorInvalidDevice)
    SOFTGPU_NAME(cudaErrorDeviceNotLicensed)
    SOFTGPU_NAME(cudaErrorSoftwareValidityNotEstablished)
    SOFTGPU_NAME(cudaErrorStartupFailure)
    SOFTGPU_NAME(cudaErrorInvalidKernelImage)
    SOFTGPU_NAME(cudaErrorDeviceUninitialized)
    SOFTGPU_NAME(cudaErrorMapBufferObjectFailed)
    SOFTGPU_NAME(cudaErrorUnmapBufferObjectFailed)
    SOFTGPU_NAME(cudaErrorArrayIsMapped)
    SOFTGPU_NAME(cudaErrorAlreadyMapped)
    SOFTGPU_NAME(cudaErrorNoKernelImageForDevice)
    SOFTGPU_NAME(cudaErrorAlreadyAcquired)
    SOFTGPU_NAME(cudaErrorNotMapped)
    SOFTGPU_NAME(cudaErrorNotMappedAsArray)
    SOFTGPU_NAME(cudaErrorNotMappedAsPointer)
    SOFTGPU_NAME(cudaErrorECCUncorrectable)
    SOFTGPU_NAME(cudaErrorUnsupportedLimit)
    SOFTGPU_NAME(cudaErrorDeviceAlreadyInUse)
    SOFTGPU_NAME(cudaErrorPeerAccessUnsupported)
    SOFTGPU_NAME(cudaErrorInvalidPtx)
    SOFTGPU_NAME(cudaErrorInvalidGraphicsContext)
    SOFTGPU_NAME(cudaErrorNvlinkUncorrectable)
    SOFTGPU_NAME(cudaErrorJitCompilerNotFound)
    SOFTGPU_NAME(cudaErrorUnsupportedPtxVersion)
    SOFTGPU_NAME(cudaErrorJitCompilationDisabled)
    SOFTGPU_NAME(cudaErrorUnsupportedExecAffinity)
    SOFTGPU_NAME(cudaErrorUnsupportedDevSideSync)
    SOFTGPU_NAME(cudaErrorContained)
    SOFTGPU_NAME(cudaErrorInvalidSource)
    SOFTGPU_NAME(cudaErrorFileNotFound)
    SOFTGPU_NAME(cudaErrorSharedObjectSymbolNotFound)
    SOFTGPU_NAME(cudaErrorSharedObjectInitFailed)
    SOFTGPU_NAME(cudaErrorOperatingSystem)
    SOFTGPU_NAME(cudaErrorInvalidResourceHandle)
    SOFTGPU_NAME(cudaErrorIllegalState)
    SOFTGPU_NAME(cudaErrorLossyQuery)
    SOFTGPU_NAME(cudaErrorSymbolNotFound)
    SOFTGPU_NAME(cudaErrorNotReady)
    SOFTGPU_NAME(cudaErrorIllegalAddress)
    SOFTGPU_NAME(cudaErrorLaunchOutOfResources)
    SOFTGPU_NAME(cudaErrorLaunchTimeout)
    SOFTGPU_NAME(cudaErrorLaunchIncompatibleTexturing)
    SOFTGPU_NAME(cudaErrorPeerAccessAlreadyEnabled)
    SOFTGPU_NAME(cudaErrorPeerAccessNotEnabled)
    SOFTGPU_NAME(cudaErrorSetOnActiveProcess)
    SOFTGPU_NAME(cudaErrorContextIsDestroyed)
    SOFTGPU_NAME(cudaErrorAssert)
    SOFTGPU_NAME(cudaErrorTooManyPeers)
    SOFTGPU_NAME(cudaErrorHostMemoryAlreadyRegistered)
    SOFTGPU_NAME(cudaErrorHostMemoryNotRegistered)
    SOFTGPU_NAME(cudaErrorHardwareStackError)
    SOFTGPU_NAME(cudaErrorIllegalInstruction)
    SOFTGPU_NAME(cudaErrorMisalignedAddress)
    SOFTGPU_NAME(cudaErrorInvalidAddressSpace)
    SOFTGPU_NAME(cudaErrorInvalidPc)
    SOFTGPU_NAME(cudaErrorLaunchFailure)
    SOFTGPU_NAME(cudaErrorCooperativeLaunchTooLarge)
    SOFTGPU_NAME(cudaErrorTensorMemoryLeak)
    SOFTGPU_NAME(cudaErrorNotPermitted)
    SOFTGPU_NAME(cudaErrorNotSupported)
    SOFTGPU_NAME(cudaErrorSystemNotReady)
    SOFTGPU_NAME(cudaErrorSystemDriverMismatch)
    SOFTGPU_NAME(cudaErrorCompatNotSupportedOnDevice)
    SOFTGPU_NAME(cudaErrorMpsConnectionFailed)
    SOFTGPU_NAME(cudaErrorMpsRpcFailure)
    SOFTGPU_NAME(cudaErrorMpsServerNotReady)
    SOFTGPU_NAME(cudaErrorMpsMaxClientsReached)
    SOFTGPU_NAME(cudaErrorMpsMaxConnectionsReached)
    SOFTGPU_NAME(cudaErrorMpsClientTerminated)
    SOFTGPU_NAME(cudaErrorCdpNotSupported)
    SOFTGPU_NAME(cudaErrorCdpVersionMismatch)
    SOFTGPU_NAME(cudaErrorStreamCaptureUnsupported)
    SOFTGPU_NAME(cudaErrorStreamCaptureInvalidated)
    SOFTGPU_NAME(cudaErrorStreamCaptureMerge)
    SOFTGPU_NAME(cudaErrorStreamCaptureUnmatched)
    SOFTGPU_NAME(cudaErrorStreamCaptureUnjoined)
    SOFTGPU_NAME(cudaErrorStreamCaptureIsolation)
    SOFTGPU_NAME(cudaErrorStreamCaptureImplicit)
    SOFTGPU_NAME(cudaErrorCapturedEvent)
    SOFTGPU_NAME(cudaErrorStreamCaptureWrongThread)
    SOFTGPU_NAME(cudaErrorTimeout)
    SOFTGPU_NAME(cudaErrorGraphExecUpdateFailure)
    SOFTGPU_NAME(cudaErrorExternalDevice)
    SOFTGPU_NAME(cudaErrorInvalidClusterSize)
    SOFTGPU_NAME(cudaErrorFunctionNotLoaded)
    SOFTGPU_NAME(cudaErrorInvalidResourceType)
    SOFTGPU_NAME(cudaErrorInvalidResourceConfiguration)
    SOFTGPU_NAME(cudaErrorUnknown)
#undef SOFTGPU_NAME
    default:
      return nullptr;
  }
}

}  // namespace

cudaError_t record(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

}  // namespace softgpu::cudart

using namespace softgpu::cudart;

SOFTGPU_CUDART cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

SOFTGPU_CUDART cudaError_t cudaPeekAtLastError() {
  return last_error;
}

SOFTGPU_CUDART const char* cudaGetErrorName(cudaError_t error) {
  const char* name = name_of(error);
  return name ? name : "unrecognized error code";
}

SOFTGPU_CUDART const char* cudaGetErrorString(cudaError_t error) {
  for (const ErrorText& entry : texts) {
    if (entry.error == error) return entry.text;
  }
  return cudaGetErrorName(error);
}
