#include <atomic>
#include <cstdint>

#include "interpose/driver_api.h"
#include "interpose/libraries.h"
#include "interpose/outside.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

using Counter = std::atomic<std::uint64_t>;
constinit Counter unified_bytes{0}, arrays{0}, ipc_handles{0}, peer_accesses{0};

CUresult counted(const Scope& scope, CUresult status, Counter& counter, std::uint64_t more = 1) {
  if (scope.outermost() && status == CUDA_SUCCESS) counter.fetch_add(more, std::memory_order_relaxed);
  return status;
}

}  // namespace

namespace pooch::interpose {

void count_ipc_handle() {
  ipc_handles.fetch_add(1, std::memory_order_relaxed);
}

void describe_outside(Summary& summary) {
  summary.unified_bytes = unified_bytes.load();
  summary.arrays = arrays.load();
  summary.ipc_handles = ipc_handles.load();
  summary.peer_accesses = peer_accesses.load();
}

}  // namespace pooch::interpose

POOCH_DRIVER_HOOK(cuMemAllocManaged, (CUdeviceptr * dptr, size_t bytesize, unsigned int flags),
                  (dptr, bytesize, flags), return counted(scope, launch(), unified_bytes, bytesize);)
POOCH_DRIVER_HOOK(cuArrayCreate_v2, (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR* pAllocateArray),
                  (pHandle, pAllocateArray), return counted(scope, launch(), arrays);)
POOCH_DRIVER_HOOK(cuArray3DCreate_v2, (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pAllocateArray),
                  (pHandle, pAllocateArray), return counted(scope, launch(), arrays);)
POOCH_DRIVER_HOOK(cuMipmappedArrayCreate,
                  (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR* pMipmappedArrayDesc,
                   unsigned int numMipmapLevels),
                  (pHandle, pMipmappedArrayDesc, numMipmapLevels), return counted(scope, launch(), arrays);)
POOCH_DRIVER_HOOK(cuIpcOpenMemHandle, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
                  (pdptr, handle, Flags), return counted(scope, launch(), ipc_handles);)
POOCH_DRIVER_HOOK(cuIpcOpenMemHandle_v2, (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned int Flags),
                  (pdptr, handle, Flags), return counted(scope, launch(), ipc_handles);)
POOCH_DRIVER_HOOK(cuCtxEnablePeerAccess, (CUcontext peerContext, unsigned int Flags), (peerContext, Flags),
                  return counted(scope, launch(), peer_accesses);)
