// Memory pools: their figures, and which of them pooch may serve.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/bytes.h"
#include "interpose/context.h"
#include "interpose/libraries.h"
#include "interpose/pools.h"
#include "interpose/process.h"

namespace pooch::interpose {

struct PoolAccount {
  CUmemoryPool handle;
  PoolMemory memory;
  CUdevice device;              // for what is not elsewhere
  std::uint64_t most = 0;       // that may be used; 0: any
  std::uint64_t threshold = 0;  // up to which the program lets the pool keep what is free
  bool any_managed = false;     // else the driver's own figures are right
  std::uint64_t used = 0, used_high = 0;
  std::uint64_t managed = 0, managed_high = 0;  // whole pages
};

namespace {

POOCH_REAL(cuda, cuCtxGetDevice);
POOCH_REAL(cuda, cuDeviceGetDefaultMemPool);
POOCH_REAL(cuda, cuDeviceGetMemPool);
POOCH_REAL(cuda, cuDeviceSetMemPool);
POOCH_REAL(cuda, cuMemSetMemPool);
POOCH_REAL(cuda, cuMemPoolCreate);
POOCH_REAL(cuda, cuMemPoolDestroy);
POOCH_REAL(cuda, cuMemPoolGetAttribute);
POOCH_REAL(cuda, cuMemPoolSetAttribute);
POOCH_REAL(cuda, cuMemPoolTrimTo);

using AccountPtr = std::shared_ptr<PoolAccount>;

struct Live {
  AccountPtr account;
  std::uint64_t bytes;
  bool managed;
};

struct Book {
  std::mutex mutex;  // a leaf
  std::map<CUmemoryPool, AccountPtr> pools;
  std::unordered_map<CUdeviceptr, Live> live;
};
Book& book() {
  static auto* const one = new Book;  // never destroyed: programs free in their exit handlers
  return *one;
}

// What is free in the driver's pools serves nobody but small allocations. PyTorch lets them keep all of it.
constexpr std::uint64_t most_kept = 64 * MiB;

// By device: which pool is its current one. nullptr: not asked yet.
constinit std::array<std::atomic<CUmemoryPool>, 64> current_pools{};

// -1 without a context. The session's own is the usual one.
CUdevice current_device(const Scope& scope) {
  CUcontext const context = current_context(scope);
  if (context == nullptr) return -1;
  if (const auto served = device_served_in(context)) return *served;
  auto* const get = real_cuCtxGetDevice.get(scope);
  CUdevice device = -1;
  return get != nullptr && get(&device) == CUDA_SUCCESS ? device : -1;
}

// The driver hands out multiples of this.
std::uint64_t as_used(std::uint64_t bytes) {
  return round_up(bytes, 512);
}

void add(PoolAccount& account, std::uint64_t bytes, bool managed) {
  account.used += as_used(bytes);
  account.used_high = std::max(account.used_high, account.used);
  if (!managed) return;
  account.any_managed = true;
  account.managed += round_up(bytes, runtime::page);
  account.managed_high = std::max(account.managed_high, account.managed);
}

void subtract(PoolAccount& account, std::uint64_t bytes, bool managed) {
  account.used -= as_used(bytes);
  if (managed) account.managed -= round_up(bytes, runtime::page);
}

AccountPtr find(CUmemoryPool pool) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  return found == book().pools.end() ? nullptr : found->second;
}

// A pool that the program did not create: the driver's own, or one that comes from another process.
AccountPtr learn(const Scope& scope, CUmemoryPool pool) {
  const CUdevice device = current_device(scope);
  auto* const get_default = real_cuDeviceGetDefaultMemPool.get(scope);
  CUmemoryPool own = nullptr;
  const bool ours = get_default != nullptr && get_default(&own, device) == CUDA_SUCCESS && own == pool;
  const auto account = std::make_shared<PoolAccount>(
      PoolAccount{pool, ours ? PoolMemory::manageable : PoolMemory::elsewhere, device});
  const std::lock_guard lock(book().mutex);
  return book().pools.try_emplace(pool, account).first->second;
}

void note_created(CUmemoryPool pool, const CUmemPoolProps& props) {
  PoolAccount account{pool, PoolMemory::manageable, props.location.id, props.maxSize};
  if (props.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
      props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) {
    account.memory = PoolMemory::elsewhere;
  } else if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE) {
    account.memory = PoolMemory::device;
  }
  const std::lock_guard lock(book().mutex);
  book().pools.insert_or_assign(pool, std::make_shared<PoolAccount>(account));
}

void note_destroyed(CUmemoryPool pool) {
  // The device's default pool takes its place.
  for (auto& current : current_pools) {
    CUmemoryPool expected = pool;  // overwritten where another one is current
    (void)current.compare_exchange_strong(expected, nullptr);
  }
  const std::lock_guard lock(book().mutex);
  book().pools.erase(pool);  // what is still allocated from it keeps the account
}

void note_current(CUdevice device, CUmemoryPool pool) {
  if (device >= 0 && device < static_cast<CUdevice>(current_pools.size())) current_pools[device].store(pool);
}

// What the program is told, given the driver's own answer.
std::uint64_t told(const PoolAccount& account, CUmemPool_attribute attribute, std::uint64_t driver) {
  switch (attribute) {
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return account.used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return account.used_high;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return driver + account.managed;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return driver + account.managed_high;
    default:
      return driver;
  }
}

// The account of a pool whose memory is managed; nullptr for others.
AccountPtr managed_pool(const Scope& scope, CUmemoryPool pool) {
  if (memory_of(scope, pool) != PoolMemory::manageable) return nullptr;
  return find(pool);
}

CUresult set_threshold(PoolAccount& account, std::uint64_t wanted) {
  std::uint64_t kept = std::min(wanted, most_kept);
  const CUresult status =
      real_cuMemPoolSetAttribute.known()(account.handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &kept);
  const std::lock_guard lock(book().mutex);
  if (status == CUDA_SUCCESS) account.threshold = wanted;
  return status;
}

bool is_figure(CUmemPool_attribute attribute) {
  return attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ||
         attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT || attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH;
}

}  // namespace

CUmemoryPool current_pool(const Scope& scope) {
  const CUdevice device = current_device(scope);
  if (device < 0 || device >= static_cast<CUdevice>(current_pools.size())) return nullptr;
  if (CUmemoryPool const known = current_pools[device].load()) return known;
  auto* const get = real_cuDeviceGetMemPool.get(scope);
  CUmemoryPool pool = nullptr;
  if (get == nullptr || get(&pool, device) != CUDA_SUCCESS) return nullptr;
  note_current(device, pool);
  return pool;
}

PoolMemory memory_of(const Scope& scope, CUmemoryPool pool) {
  AccountPtr account = find(pool);
  if (account == nullptr) account = learn(scope, pool);
  return account->device == current_device(scope) ? account->memory : PoolMemory::elsewhere;
}

void trim_current_pool(const Scope& scope) {
  CUmemoryPool const pool = current_pool(scope);
  auto* const trim = real_cuMemPoolTrimTo.get_if_present(scope);
  if (pool != nullptr && trim != nullptr) (void)trim(pool, 0);
}

bool pool_admits(CUmemoryPool pool, std::uint64_t bytes) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  if (found == book().pools.end() || found->second->most == 0) return true;
  return found->second->used + as_used(bytes) <= found->second->most;
}

void pool_allocated(CUmemoryPool pool, CUdeviceptr address, std::uint64_t bytes, bool managed) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  if (found == book().pools.end()) return;
  add(*found->second, bytes, managed);
  book().live.insert_or_assign(address, Live{found->second, bytes, managed});
}

PoolFree::PoolFree(CUdeviceptr address) : address_(address) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().live.find(address);
  if (found == book().live.end()) return;
  bytes_ = found->second.bytes;
  managed_ = found->second.managed;
  account_ = std::move(found->second.account);
  subtract(*account_, bytes_, managed_);
  book().live.erase(found);
}

PoolFree::~PoolFree() {
  if (account_ == nullptr) return;
  const std::lock_guard lock(book().mutex);
  add(*account_, bytes_, managed_);
  book().live.insert_or_assign(address_, Live{account_, bytes_, managed_});
}

CUmemoryPool pool_of(CUdeviceptr allocation) {
  const std::lock_guard lock(book().mutex);
  const auto found = book().live.find(allocation);
  return found == book().live.end() ? nullptr : found->second.account->handle;
}

}  // namespace pooch::interpose

using namespace pooch;
using namespace pooch::interpose;

POOCH_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  const Scope scope;
  auto* const real = real_cuMemPoolCreate.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, poolProps);
  if (status == CUDA_SUCCESS) note_created(*pool, *poolProps);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemPoolDestroy.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool);
  if (status == CUDA_SUCCESS) note_destroyed(pool);
  return status;
}

POOCH_EXPORT CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuDeviceSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(dev, pool);
  if (status == CUDA_SUCCESS) note_current(dev, pool);
  return status;
}

POOCH_EXPORT CUresult cuMemSetMemPool(CUmemLocation* location, CUmemAllocationType type, CUmemoryPool pool) {
  const Scope scope;
  auto* const real = real_cuMemSetMemPool.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(location, type, pool);
  if (status == CUDA_SUCCESS && location->type == CU_MEM_LOCATION_TYPE_DEVICE &&
      type == CU_MEM_ALLOCATION_TYPE_PINNED)
    note_current(location->id, pool);
  return status;
}

POOCH_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolGetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  const CUresult status = real(pool, attr, value);
  if (status != CUDA_SUCCESS || (!is_figure(attr) && attr != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD))
    return status;
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  if (found == book().pools.end()) return status;
  auto* const figure = static_cast<cuuint64_t*>(value);
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) *figure = std::max(*figure, found->second->threshold);
  if (found->second->any_managed) *figure = told(*found->second, attr, *figure);
  return status;
}

// A high-water mark that is set to zero, the only value there is, becomes the current figure.
POOCH_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  const Scope scope;
  auto* const real = real_cuMemPoolSetAttribute.get(scope);
  if (real == nullptr) return CUDA_ERROR_SHARED_OBJECT_INIT_FAILED;
  if (attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD && value != nullptr && configuration() != nullptr)
    if (const AccountPtr account = managed_pool(scope, pool))
      return set_threshold(*account, *static_cast<const cuuint64_t*>(value));
  const CUresult status = real(pool, attr, value);
  if (status != CUDA_SUCCESS) return status;
  const std::lock_guard lock(book().mutex);
  const auto found = book().pools.find(pool);
  if (found == book().pools.end()) return status;
  PoolAccount& account = *found->second;
  if (attr == CU_MEMPOOL_ATTR_USED_MEM_HIGH) account.used_high = account.used;
  if (attr == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) account.managed_high = account.managed;
  return status;
}
