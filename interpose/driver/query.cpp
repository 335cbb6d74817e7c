// Questions about memory: pooch answers them for what it manages, and tells one story about how much there
// is.
#include <atomic>
#include <cstdint>
#include <cstring>

#include "core/log.h"
#include "interpose/driver/outside.h"
#include "interpose/driver/small_blocks.h"
#include "interpose/hooks/driver_api.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/inside.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

using namespace pooch;
using namespace pooch::interpose;

namespace {

POOCH_REAL(cuda, cuMemGetInfo_v2);
POOCH_REAL(cuda, cuDeviceTotalMem_v2);
POOCH_REAL(cuda, cuMemGetAddressRange_v2);
POOCH_REAL(cuda, cuPointerGetAttribute);
POOCH_REAL(cuda, cuPointerGetAttributes);
POOCH_REAL(cuda, cuPointerSetAttribute);
POOCH_REAL(cuda, cuIpcGetMemHandle);
POOCH_REAL(cuda, cuMemRetainAllocationHandle);
POOCH_REAL(cuda, cuMemGetHandleForAddressRange);

// Of managed memory and of small blocks.
runtime::Session* owner_of(CUdeviceptr address) {
  if (runtime::Session* const owner = session_owning(Address{address})) return owner;
  return open_session() != nullptr ? session_of_block(address) : nullptr;
}

std::optional<runtime::Extent> allocation_at(const runtime::Session& session, CUdeviceptr address) {
  return session.owns(Address{address}) ? find_allocation(session, Address{address})
                                        : session.find_known(Address{address});
}

template <class Value>
CUresult put(void* to, Value value) {
  std::memcpy(to, &value, sizeof(Value));  // NOLINT: handles are copied as such
  return CUDA_SUCCESS;
}

// One attribute of an address in a live managed allocation, as cuMemAlloc would have it.
CUresult attribute_of(const runtime::Session& session, const runtime::Extent& allocation, CUdeviceptr address,
                      CUpointer_attribute attribute, void* to) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(to, context_of(session));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put(to, static_cast<unsigned int>(CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return put(to, address);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return put(to, static_cast<unsigned long long>(raw(allocation.base)));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return put(to, 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(to, device_of(session));
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put(to, false);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put(to, true);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return put(to, static_cast<CUdeviceptr>(raw(allocation.base)));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return put(to, static_cast<size_t>(allocation.bytes));
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return put(to, static_cast<unsigned long long>(0));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return put(to, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: {
      const auto* const origin = static_cast<const Origin*>(session.origin_of(allocation.base));
      return put(to, origin == nullptr ? nullptr : handle_of(origin->account));
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;  // host pointer, P2P tokens: not for device memory
  }
}

// How many bytes an attribute has, for the zero that stands for "none".
std::size_t attribute_bytes(CUpointer_attribute attribute) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return 4;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return 1;
    default:
      return 8;
  }
}

// For what needs physical memory that stays: pooch moves it.
CUresult cannot_share(const char* function) {
  static std::atomic<bool> reported{false};
  if (!reported.exchange(true)) {
    log::warn(
        "{}: memory that pooch manages moves and cannot be shared; run without pooch, or allocate it in "
        "pieces "
        "of less than 2 MiB",
        function);
  }
  return CUDA_ERROR_NOT_SUPPORTED;
}

}  // namespace

POOCH_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  const Scope scope;
  auto* const real = real_cuMemGetInfo_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  runtime::Session* const session = scope.outermost() ? session_for_driver_call(scope) : nullptr;
  if (session == nullptr) return real(free, total);
  const runtime::MemoryInfo info = session->memory_info();
  if (free != nullptr) *free = info.free_bytes;
  if (total != nullptr) *total = info.total_bytes;
  return CUDA_SUCCESS;
}

POOCH_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice dev) {
  const Scope scope;
  auto* const real = real_cuDeviceTotalMem_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(bytes, dev);
  const Config* const config = configuration();
  if (status != CUDA_SUCCESS || bytes == nullptr || config == nullptr || !scope.outermost()) return status;
  if (const runtime::Session* const session = session_on(dev)) {
    *bytes = session->device_bytes();
    return status;
  }
  // Asked before there is a context, as a rule: the answer is what the session will say.
  DeviceInfo device = {};
  device.total_bytes = *bytes;
  device.granularity = 2 * MiB;
  if (const auto limits = runtime::settle_limits(*config, device)) *bytes = limits->total();
  return status;
}

POOCH_EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  const Scope scope;
  auto* const real = real_cuMemGetAddressRange_v2.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const runtime::Session* const session = owner_of(dptr);
  if (session == nullptr) return real(pbase, psize, dptr);
  const auto allocation = allocation_at(*session, dptr);
  if (!allocation) return CUDA_ERROR_NOT_FOUND;
  if (pbase != nullptr) *pbase = raw(allocation->base);
  if (psize != nullptr) *psize = allocation->bytes;
  return CUDA_SUCCESS;
}

POOCH_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  const Scope scope;
  auto* const real = real_cuPointerGetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const runtime::Session* const session = owner_of(ptr);
  if (session == nullptr || data == nullptr) return real(data, attribute, ptr);
  const auto allocation = allocation_at(*session, ptr);
  return allocation ? attribute_of(*session, *allocation, ptr, attribute, data) : CUDA_ERROR_INVALID_VALUE;
}

POOCH_EXPORT CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                             void** data, CUdeviceptr ptr) {
  const Scope scope;
  auto* const real = real_cuPointerGetAttributes.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const runtime::Session* const session = owner_of(ptr);
  if (session == nullptr || attributes == nullptr || data == nullptr)
    return real(numAttributes, attributes, data, ptr);
  const auto allocation = allocation_at(*session, ptr);
  // Unlike the singular form, this one succeeds for any address; what does not apply is zero.
  for (unsigned int i = 0; i < numAttributes; ++i) {
    if (!allocation || attribute_of(*session, *allocation, ptr, attributes[i], data[i]) != CUDA_SUCCESS) {
      std::memset(data[i], 0, attribute_bytes(attributes[i]));
    }
  }
  return CUDA_SUCCESS;
}

POOCH_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                            CUdeviceptr ptr) {
  const Scope scope;
  auto* const real = real_cuPointerSetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  return owner_of(ptr) != nullptr ? cannot_share("cuPointerSetAttribute") : real(value, attribute, ptr);
}

POOCH_EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle* pHandle, CUdeviceptr dptr) {
  const Scope scope;
  auto* const real = real_cuIpcGetMemHandle.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (owner_of(dptr) != nullptr) return cannot_share("cuIpcGetMemHandle");
  const CUresult status = real(pHandle, dptr);
  if (scope.outermost() && status == CUDA_SUCCESS) count_ipc_handle();
  return status;
}

POOCH_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  const Scope scope;
  auto* const real = real_cuMemRetainAllocationHandle.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  return owner_of(reinterpret_cast<CUdeviceptr>(addr)) != nullptr
             ? cannot_share("cuMemRetainAllocationHandle")
             : real(handle, addr);
}

POOCH_DRIVER_HOOK(cuMulticastBindAddr,
                  (CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr, size_t size,
                   unsigned long long flags),
                  (mcHandle, mcOffset, memptr, size, flags),
                  return owner_of(memptr) != nullptr ? cannot_share("cuMulticastBindAddr") : launch();)

POOCH_EXPORT CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr dptr, size_t size,
                                                    CUmemRangeHandleType handleType,
                                                    unsigned long long flags) {
  const Scope scope;
  auto* const real = real_cuMemGetHandleForAddressRange.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  return owner_of(dptr) != nullptr ? cannot_share("cuMemGetHandleForAddressRange")
                                   : real(handle, dptr, size, handleType, flags);
}
