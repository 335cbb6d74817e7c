// Memory pools: their figures as the program sees them.
#include "interpose/driver/pool.h"

#include <algorithm>
#include <optional>
#include <span>

#include "core/bytes.h"
#include "interpose/driver/small_blocks.h"
#include "interpose/hooks/libraries.h"
#include "interpose/sessions/again.h"
#include "interpose/sessions/configuration.h"
#include "interpose/sessions/pool_accounts.h"
#include "interpose/sessions/served.h"
#include "interpose/sessions/sessions.h"

namespace pooch::interpose {
namespace {

POOCH_REAL(cuda, cuDeviceGetCount);
POOCH_REAL(cuda, cuDeviceGetDefaultMemPool);
POOCH_REAL(cuda, cuDeviceSetMemPool);
POOCH_REAL(cuda, cuMemSetMemPool);
POOCH_REAL(cuda, cuMemPoolCreate);
POOCH_REAL(cuda, cuMemPoolDestroy);
POOCH_REAL(cuda, cuMemPoolGetAttribute);
POOCH_REAL(cuda, cuMemPoolSetAttribute);
POOCH_REAL(cuda, cuMemPoolTrimTo);

// What is free in the driver's pools serves nobody but small allocations. PyTorch lets them keep all of it.
constexpr std::uint64_t most_kept = 64 * MiB;

// What the program is told, given the driver's own answer.
std::uint64_t told(const PoolAccount& account, CUmemPool_attribute attribute, std::uint64_t driver) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return account.used.now();
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return account.used.high();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return driver + account.managed.now();
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return driver + account.managed.high();
    default:
      return driver;
  }
}

CUresult set_threshold(PoolAccount& account, std::uint64_t wanted) {
  std::uint64_t kept = std::min(wanted, most_kept);
  const CUresult status =
      real_cuMemPoolSetAttribute.known()(account.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  if (status == CUDA_SUCCESS) account.threshold = wanted;
  return status;
}

bool is_figure(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
}

std::optional<CUdevice> device_of_pool(const Scope& scope, CUmemoryPool pool) {
  const PoolAccount* const known = find_pool(pool);
  if (known != nullptr && known->memory != PoolMemory::elsewhere) return known->device;
  auto* const count = real_cuDeviceGetCount.get_if_present(scope);
  auto* const get_default = real_cuDeviceGetDefaultMemPool.get_if_present(scope);
  int devices = 0;
  if (count == nullptr || get_default == nullptr || count(&devices) != CUDA_SUCCESS) return std::nullopt;
  for (CUdevice device = 0; device < devices; ++device) {
    CUmemoryPool own = nullptr;
    if (get_default(&own, device) == CUDA_SUCCESS && own == pool) return device;
  }
  return std::nullopt;
}

void note_access(const Scope& scope, CUmemoryPool pool, std::span<const CUmemAccessDesc> rights) {
  const auto device = device_of_pool(scope, pool);
  for (const CUmemAccessDesc& right : rights)
    if (device && right.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        right.flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      let_in(scope, *device, right.location.id);
}

}  // namespace

void trim_current_pool(const Scope& scope) {
  const PoolAccount* const current = current_pool(scope);
  release_blocks(scope);
  auto* const trim = real_cuMemPoolTrimTo.get_if_present(scope);
  if (current != nullptr && trim != nullptr) (void)trim(current->handle, 0);
}

}  // namespace pooch::interpose

using namespace pooch;
using namespace pooch::interpose;

POOCH_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  const Scope scope;
  auto* const real = real_cuMemPoolCreate.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, poolProps);
  if (status == CUDA_SUCCESS) note_pool_created(*pool, *poolProps);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemPoolDestroy.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool);
  if (status == CUDA_SUCCESS) note_pool_destroyed(pool);
  return status;
}

POOCH_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuDeviceSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(dev, pool);
  if (status == CUDA_SUCCESS) note_current_pool_changed(dev);
  return status;
}

POOCH_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(location, type, pool);
  if (status == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
      type == CU_MEM_ALLOCATION_TYPE_PINNED)
    note_current_pool_changed(location->id);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolGetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, attr, value);
  if (status != CUDA_SUCCESS || (!is_figure(attr) && attr != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
    return status;
  const PoolAccount* const account = find_pool(pool);
  if (account == nullptr) return status;
  auto* const figure = static_cast<cuuint64_t*>(value);
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) *figure = std::max<cuuint64_t>(*figure, account->threshold);
  if (account->any_own) *figure = told(*account, attr, *figure);
  return status;
}

// Who is let into a pool is let into what is managed of its device.
POOCH_DRIVER_HOOK(cuMemPoolSetAccess, (CUmemoryPool pool, const CUmemAccessDesc* map, size_t count),
                  (pool, map, count), const CUresult status = launch();
                  if (status == CUDA_SUCCESS) note_access(scope, pool, {map, count}); return status;)

// What pooch keeps of the pool goes first.
POOCH_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  const Scope scope;
  auto* const real = real_cuMemPoolTrimTo.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (open_session() != nullptr) release_blocks(scope);
  return real(pool, minBytesToKeep);
}

// A high-water mark that is set to zero, the only value there is, becomes the current figure.
POOCH_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolSetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != nullptr && configuration() != nullptr) {
    PoolAccount& account = *pool_account(scope, pool);
    if (memory_of(scope, account) == PoolMemory::manageable)
      return set_threshold(account, *static_cast<const cuuint64_t*>(value));
  }
  const CUresult status = real(pool, attr, value);
  PoolAccount* const account = status == CUDA_SUCCESS ? find_pool(pool) : nullptr;
  if (account == nullptr) return status;
  if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) account->used.reset_mark();
  if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) account->managed.reset_mark();
  return status;
}
