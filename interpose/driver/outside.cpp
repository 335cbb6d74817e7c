#include <atomic>
#include <cstdint>

#include "core/log.h"
#include "interpose/driver/outside.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuCtxPushCurrent_v2);
POOCH_REAL(cuda, cuCtxPopCurrent_v2);

using Counter = std::atomic<std::uint64_t>;
constinit Counter unified_bytes{0}, arrays{0}, ipc_handles{0}, peer_accesses{0};

CUresult counted(const Scope& scope, CUresult status, Counter& counter, std::uint64_t more = 1) {
  if (scope.outermost() && status == CUDA_SUCCESS) counter.fetch_add(more, std::memory_order_relaxed);
  return status;
}

// The current context's device may access memory of the other's.
void note_peer(const Scope& scope, CUcontext other) {
  auto* const get_device = real_cuCtxGetDevice.get_if_present(scope);
  auto* const push = real_cuCtxPushCurrent_v2.get_if_present(scope);
  auto* const pop = real_cuCtxPopCurrent_v2.get_if_present(scope);
  CUdevice own = 0, others = 0;
  CUcontext popped = nullptr;
  if (get_device == nullptr || push == nullptr || pop == nullptr || get_device(&own) != CUDA_SUCCESS ||
      push(other) != CUDA_SUCCESS)
    return;
  const CUresult status = get_device(&others);
  (void)pop(&popped);
  if (status == CUDA_SUCCESS) let_in(scope, others, own);
}

}  // namespace

namespace pooch::interpose {

void count_ipc_handle() {
  ipc_handles.fetch_add(1, std::memory_order_relaxed);
}

void warn_unsupported(const Scope& scope, std::atomic<bool>& warned, const char* function, const char* why) {
  if (scope.outermost() && open_session() != nullptr && !warned.exchange(true))
    log::warn("{} is not followed: {}", function, why);
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
                  const CUresult status = counted(scope, launch(), peer_accesses);
                  if (status == CUDA_SUCCESS) note_peer(scope, peerContext); return status;)
